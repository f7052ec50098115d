"""The official Python client against one butler: lists its tools, sets a state and reads it, and prints what came as
JSON: {"protocol": "2025-11-25", "tools": [...names], "set": {...}, "get": {...}}

BUTLERD_TEST_MCP_URL       http://127.0.0.1:PORT/mcp
BUTLERD_TEST_MCP_TOKEN     a token for this butler
BUTLERD_TEST_MCP_PROTOCOL  `legacy`, `auto`, or a version such as 2026-07-28
"""

import asyncio
import json
import os

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client


async def call(client, name, arguments):
    result = await client.call_tool(name, arguments)
    if result.is_error:
        raise RuntimeError(f"{name}: {result.content}")
    return json.loads(result.content[0].text)


async def main():
    url = os.environ["BUTLERD_TEST_MCP_URL"]
    protocol = os.environ["BUTLERD_TEST_MCP_PROTOCOL"]
    headers = {"Authorization": f"Bearer {os.environ['BUTLERD_TEST_MCP_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=protocol) as client:
            tools = (await client.list_tools()).tools
            key = f"list-and-call-py-{protocol}"
            value = {"from": "Python", "grüße": [1, 2.5, None]}
            set_result = await call(client, "state_set", {"key": key, "value": value})
            get_result = await call(client, "state_get", {"key": key})
            report = {
                "protocol": client.protocol_version,
                "tools": [tool.name for tool in tools],
                "set": set_result,
                "get": get_result,
            }
    print(json.dumps(report))


asyncio.run(main())
