"""A server with the tools of Graphiti's MCP server and nothing behind them: no model, no graph, no package.

Its tools are those that tools.json records of the real one (mcp_server 1.0.2), and it is stricter: an argument that no tool
has is refused. It keeps episodes and gives facts that a test put there; it fails, hangs and forgets as a test asks.

    python3 plain.py --port PORT [--log FILE] [--group main]

It prints {"url": ..., "control": ...} once it listens, and ends with its standard input. FILE gets a line for each episode
before the call is answered, and is read at the start: what was stored is there again after a kill.

POST to `control` a JSON object with any of:
  fault   {"kind": ..., "tool": "add_memory", "times": 1}: the next calls of the tool, so many (-1: all)
          refuse  HTTP 500                          error    the tool's own {"error": ...}
          cut     the connection breaks, not stored lost     it breaks behind storing
          hang    no answer, not stored             hang_stored  no answer, stored
          drop    answered well, never stored
  slow    milliseconds that each call takes
  hide    names of tools that it does not have
  uuids   "real", the default: an episode whose uuid is not there already is lost behind a good answer, as in the real
          server, which takes a uuid for that of an episode to read anew; "take": it is stored under its uuid, once
  facts, nodes   lists that searches look in; what a test leaves out of one is filled in
GET it for what happened: {"calls": [...], "episodes": [...], "lost": [...], "failed": n, "lists": n}. `calls` is every
add_memory that came, whether or not it was stored, `episodes` what is stored, both in the order in which they came.
"""

import argparse
import json
import os
import re
import sys
import threading
import time
import uuid as uuids
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TOOLS = json.loads((Path(__file__).parent / "tools.json").read_text())
SPEAKS = ["2025-11-25", "2025-06-18", "2025-03-26"]
# What the real server accepts as a group's name; it finds out behind its answer, and the episode is lost.
GROUP = re.compile(r"^[a-zA-Z0-9_-]*$")
SOURCES = ("text", "message", "json")


def now():
    return datetime.now(timezone.utc).isoformat()


class Refused(Exception):
    """The call's arguments are wrong: the tool is not run."""


class Fails(Exception):
    """The tool fails by itself, with words that become its error."""


def fits(value, schema):
    """Whether a value is of a type that the schema names."""
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    kind = schema.get("type")
    if kind == "array":
        return isinstance(value, list) and all(fits(item, schema.get("items", {})) for item in value)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    types = {"string": str, "boolean": bool, "null": type(None), "object": dict}
    return kind not in types or isinstance(value, types[kind])


def checked(tool, arguments):
    """The arguments with the defaults of those that are missing."""
    schema = tool["inputSchema"]
    known = schema.get("properties", {})
    if strange := sorted(set(arguments) - set(known)):
        raise Refused(f"{tool['name']} has no argument {', '.join(strange)}")
    if missing := sorted(set(schema.get("required", [])) - set(arguments)):
        raise Refused(f"{tool['name']} needs {', '.join(missing)}")
    for name, value in arguments.items():
        if not fits(value, known[name]):
            raise Refused(f"{tool['name']}: {name} is {json.dumps(value)[:100]}, which is of another type")
    return {name: arguments.get(name, about.get("default")) for name, about in known.items()}


def time_of(text):
    if text is None:
        return None
    text = text.strip()
    try:
        read = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text)
    except ValueError as error:
        raise Fails(f"Invalid reference_time: {error}") from error
    return (read if read.tzinfo else read.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)


class Store:
    """What is kept, under one lock."""

    def __init__(self, log, group):
        self.lock = threading.Lock()
        self.group, self.log = group, None
        self.calls, self.episodes, self.lost = [], [], []
        self.facts, self.nodes, self.faults = [], [], []
        self.failed = self.lists = self.slow = 0
        self.hide, self.uuids = [], "real"
        if log:
            text = log.read_text() if log.exists() else ""
            # A line that a kill cut off was not answered.
            self.episodes = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
            self.log = open(log, "a", encoding="utf-8")
            if text and not text.endswith("\n"):
                self.log.write("\n")

    def keep(self, episode):
        if self.log:
            self.log.write(json.dumps(episode) + "\n")
            self.log.flush()
            os.fsync(self.log.fileno())
        self.episodes.append(episode)

    def control(self, said):
        with self.lock:
            if fault := said.pop("fault", None):
                self.faults.append({"tool": "add_memory", "times": 1, **fault})
            for fact in said.pop("facts", []):
                made = {"uuid": str(uuids.uuid4()), "group_id": self.group, "created_at": now(), "name": "RELATES_TO",
                        "source_node_uuid": str(uuids.uuid4()), "target_node_uuid": str(uuids.uuid4()), "episodes": [],
                        "expired_at": None, "valid_at": None, "invalid_at": None, "reference_time": None, "attributes": {}}
                self.facts.append({**made, **fact})
            for node in said.pop("nodes", []):
                made = {"uuid": str(uuids.uuid4()), "labels": ["Entity"], "created_at": now(), "summary": "",
                        "group_id": self.group, "attributes": {}}
                self.nodes.append({**made, **node})
            for key in ("slow", "hide", "uuids"):
                if key in said:
                    setattr(self, key, said.pop(key))
            if said:
                raise Refused(f"no such order: {', '.join(said)}")

    def state(self):
        with self.lock:
            return {"calls": self.calls, "episodes": self.episodes, "lost": self.lost, "failed": self.failed,
                    "lists": self.lists}

    def fault(self, tool):
        """The fault of this call, if it has one."""
        with self.lock:
            for fault in self.faults:
                if fault["tool"] in (tool, "*") and fault["times"] != 0:
                    fault["times"] -= 1
                    self.failed += 1
                    return fault["kind"]
        return None

    def groups(self, asked):
        if isinstance(asked, str):
            asked = [asked] if asked else None
        return asked if asked is not None else [self.group]

    # ---- the tools, each with its checked arguments

    def add_memory(self, a, drop=False):
        reference = time_of(a["reference_time"])
        group, source = a["group_id"] or self.group, (a["source"] or "text").lower()
        episode = {
            "uuid": a["uuid"] or str(uuids.uuid4()), "name": a["name"], "content": a["episode_body"], "created_at": now(),
            "source": source if source in SOURCES else "text", "source_description": a["source_description"],
            "group_id": group, "reference_time": (reference or datetime.now(timezone.utc)).isoformat(),
        }
        with self.lock:
            self.calls.append({name: value for name, value in a.items() if value is not None})
            known = any(e["uuid"] == a["uuid"] for e in self.episodes)
            if drop or not GROUP.match(group) or (a["uuid"] and self.uuids == "real" and not known):
                self.lost.append(episode)
            elif not known:
                self.keep(episode)
        return {"message": f"Episode '{a['name']}' queued for processing in group '{group}'"}

    def get_episodes(self, a):
        groups = self.groups(a["group_ids"])
        with self.lock:
            found = [e for e in self.episodes if e["group_id"] in groups]
        # By their uuid, as the real server has it: the newest are not the first.
        found.sort(key=lambda e: e["uuid"], reverse=True)
        found = [{k: v for k, v in e.items() if k != "reference_time"} for e in found[: a["max_episodes"]]]
        return {"message": "Episodes retrieved successfully" if found else "No episodes found", "episodes": found}

    def delete_episode(self, a):
        with self.lock:
            if not any(e["uuid"] == a["uuid"] for e in self.episodes):
                raise Fails(f"Error deleting episode: node {a['uuid']} not found")
            self.episodes = [e for e in self.episodes if e["uuid"] != a["uuid"]]
        return {"message": f"Episode with UUID {a['uuid']} deleted successfully"}

    def found(self, among, query, groups, text):
        words = set(re.findall(r"\w+", query.lower()))
        with self.lock:
            among = [one for one in among if one["group_id"] in groups]
        rated = [(len(words & set(re.findall(r"\w+", text(one).lower()))), one) for one in among]
        return [one for rate, one in sorted(rated, key=lambda r: -r[0]) if rate > 0]

    def search_memory_facts(self, a):
        if a["max_facts"] <= 0:
            raise Fails("max_facts must be a positive integer")
        found = self.found(self.facts, a["query"], self.groups(a["group_ids"]), lambda fact: fact["fact"])
        found = found[: a["max_facts"]]
        return {"message": "Facts retrieved successfully" if found else "No relevant facts found", "facts": found}

    def search_nodes(self, a):
        text = lambda node: f"{node['name']} {node['summary']}"
        found = self.found(self.nodes, a["query"], self.groups(a["group_ids"]), text)[: a["max_nodes"]]
        return {"message": "Nodes retrieved successfully" if found else "No relevant nodes found", "nodes": found}

    def get_entity_edge(self, a):
        with self.lock:
            for fact in self.facts:
                if fact["uuid"] == a["uuid"]:
                    return fact
        raise Fails(f"Error getting entity edge: edge {a['uuid']} not found")

    def delete_entity_edge(self, a):
        with self.lock:
            if not any(fact["uuid"] == a["uuid"] for fact in self.facts):
                raise Fails(f"Error deleting entity edge: edge {a['uuid']} not found")
            self.facts = [fact for fact in self.facts if fact["uuid"] != a["uuid"]]
        return {"message": f"Entity edge with UUID {a['uuid']} deleted successfully"}

    def clear_graph(self, a):
        groups = self.groups(a["group_ids"])
        with self.lock:
            self.episodes = [e for e in self.episodes if e["group_id"] not in groups]
            self.facts = [f for f in self.facts if f["group_id"] not in groups]
            self.nodes = [n for n in self.nodes if n["group_id"] not in groups]
        return {"message": f"Graph data cleared successfully for group IDs: {', '.join(groups)}"}

    def get_status(self, _):
        return {"status": "ok", "message": "Graphiti MCP server is running and connected to no database"}


class Cut(Exception):
    """The connection breaks, or is kept open without an answer."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, said):
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/control":
            return self.send(200, self.server.store.state())
        if self.path == "/health":
            return self.send(200, {"status": "healthy", "service": "graphiti-mcp"})
        self.send(405 if self.path == "/mcp" else 404, {"error": "nothing here"})

    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        if self.path == "/control":
            try:
                self.server.store.control(said)
            except Refused as why:
                return self.send(400, {"error": str(why)})
            return self.send(200, {})
        if self.path.rstrip("/") != "/mcp":
            return self.send(404, {"error": "nothing here"})
        if "id" not in said:
            self.send_response(202)
            self.send_header("content-length", "0")
            return self.end_headers()
        answer = {"jsonrpc": "2.0", "id": said["id"]}
        try:
            self.send(200, {**answer, "result": self.answer(said["method"], said.get("params") or {})})
        except Cut as how:
            if str(how) == "refuse":
                return self.send(500, {"error": "refused by the test"})
            if str(how) == "hang":
                threading.Event().wait()
            self.close_connection = True
            self.connection.close()
        except KeyError:
            self.send(200, {**answer, "error": {"code": -32601, "message": f"there is no {said['method']}"}})

    def answer(self, method, params):
        store = self.server.store
        if method == "initialize":
            asked = params.get("protocolVersion")
            return {"protocolVersion": asked if asked in SPEAKS else SPEAKS[0], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "Graphiti Agent Memory", "version": "plain"}}
        has = [tool for tool in TOOLS if hasattr(Store, tool["name"]) and tool["name"] not in store.hide]
        if method == "tools/list":
            store.lists += 1
            return {"tools": has}
        if method == "ping":
            return {}
        if method != "tools/call":
            raise KeyError(method)
        tool = next((tool for tool in has if tool["name"] == params["name"]), None)
        if tool is None:
            return failed(f"Unknown tool: {params['name']}")
        return self.call(tool, params.get("arguments") or {})

    def call(self, tool, arguments):
        store, name = self.server.store, tool["name"]
        try:
            arguments = checked(tool, arguments)
        except Refused as why:
            return failed(str(why))
        if store.slow:
            time.sleep(store.slow / 1000)
        fault = store.fault(name)
        if fault in ("refuse", "cut", "hang"):
            raise Cut(fault)
        try:
            if fault == "error":
                raise Fails("Error by order of the test")
            result = store.add_memory(arguments, fault == "drop") if name == "add_memory" else getattr(store, name)(arguments)
        except Fails as why:
            result = {"error": str(why)}
        if fault in ("lost", "hang_stored"):
            raise Cut("hang" if fault == "hang_stored" else "cut")
        # The library of the real server puts a result that may be one of several into an object of its own.
        wrapped = "result" in tool["outputSchema"]["properties"]
        return {"content": [{"type": "text", "text": json.dumps(result, indent=2)}],
                "structuredContent": {"result": result} if wrapped else result, "isError": False}


def failed(why):
    return {"content": [{"type": "text", "text": f"Error executing tool: {why}"}], "isError": True}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("--port", type=int, default=0)
    asked.add_argument("--log", type=Path)
    asked.add_argument("--group", default="main")
    asked = asked.parse_args()
    server = Server(("127.0.0.1", asked.port), Handler)
    server.store = Store(asked.log, asked.group)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_address[1]}"
    print(json.dumps({"url": f"{at}/mcp", "control": f"{at}/control"}), flush=True)
    # Until whoever started it is gone.
    while sys.stdin.buffer.read(4096):
        pass


if __name__ == "__main__":
    main()
