"""A small MCP server made with the official Python package: over standard input and output, or with `http` as its argument on
a free port of loopback, which it prints."""

import socket
import sys

from mcp.server import MCPServer

server = MCPServer("small")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def greet(name: str) -> str:
    """Greet somebody by name."""
    return f"Hello, {name}"


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        import uvicorn

        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        uvicorn.Server(config).run(sockets=[listening])
    else:
        server.run("stdio")
