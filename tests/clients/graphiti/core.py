"""graphiti_core, as its makers publish it, on an embedded store, behind the tools of their MCP server.

Their server wants a database of its own on the network, so its tools are made here anew: by the signatures in tools.json, on
the library that it uses itself, with the same calls of graphiti_core. The model is asked at --model over HTTP, which is the
scripted one of a test. Words become vectors here, by a sum of their hashes, because no model for that is at hand. Stricter
than theirs: an argument that no tool has is refused.

    python core.py --port PORT --model http://127.0.0.1:PORT/v1 [--store FILE] [--group main]

FILE keeps what was read over a regular end. Over a kill it may not: kuzu 0.11.3 then dies of segmentation faults while it
reads its journal, or behind that.

It prints {"url": ..., "control": ...} once it listens, and ends with its standard input. GET `control` for what was lost:
{"taken": n, "done": n, "lost": [{"name": ..., "error": ...}]}.
"""

import argparse
import asyncio
import hashlib
import json
import math
import os
import re
import socket
import sys
import threading
import warnings
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

# Before graphiti_core is read: it asks once.
os.environ["GRAPHITI_TELEMETRY_ENABLED"] = "false"
os.environ["EMBEDDING_DIM"] = "256"
warnings.filterwarnings("ignore", category=DeprecationWarning)

import kuzu
import uvicorn
from graphiti_core import Graphiti
from graphiti_core.cross_encoder.client import CrossEncoderClient
from graphiti_core.driver.driver import GraphProvider
from graphiti_core.driver.kuzu_driver import KuzuDriver
from graphiti_core.edges import EntityEdge
from graphiti_core.embedder.client import EMBEDDING_DIM, EmbedderClient
from graphiti_core.graph_queries import get_fulltext_indices
from graphiti_core.llm_client.config import LLMConfig
from graphiti_core.llm_client.openai_generic_client import OpenAIGenericClient
from graphiti_core.nodes import EpisodeType, EpisodicNode
from graphiti_core.search.search_config_recipes import NODE_HYBRID_SEARCH_NODE_DISTANCE, NODE_HYBRID_SEARCH_RRF
from graphiti_core.search.search_filters import ComparisonOperator, DateFilter, SearchFilters
from graphiti_core.utils.maintenance.graph_data_operations import clear_data
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from starlette.responses import JSONResponse
from typing_extensions import TypedDict

TOOLS = {tool["name"]: tool for tool in json.loads((Path(__file__).parent / "tools.json").read_text())}


class Words(EmbedderClient):
    """Texts with the same words are near each other."""

    def vector(self, text):
        sums = [0.0] * EMBEDDING_DIM
        for word in re.findall(r"\w+", text.lower()):
            digest = hashlib.sha256(word.encode()).digest()
            sums[int.from_bytes(digest[:4], "big") % EMBEDDING_DIM] += 1.0 if digest[4] % 2 else -1.0
        length = math.sqrt(sum(one * one for one in sums)) or 1.0
        return [one / length for one in sums]

    async def create(self, input_data):
        return self.vector(input_data if isinstance(input_data, str) else " ".join(map(str, input_data)))

    async def create_batch(self, input_data_list):
        return [self.vector(text) for text in input_data_list]


class NoRanking(CrossEncoderClient):
    """The tools' searches need none; without this graphiti_core would make one that wants a key."""

    async def rank(self, query, passages):
        return [(passage, 1.0) for passage in passages]


# What the tools answer: the shapes of the real server.
class ErrorResponse(TypedDict):
    error: str


class SuccessResponse(TypedDict):
    message: str


class NodeResult(TypedDict):
    uuid: str
    name: str
    labels: list[str]
    created_at: str | None
    summary: str | None
    group_id: str
    attributes: dict[str, Any]


class NodeSearchResponse(TypedDict):
    message: str
    nodes: list[NodeResult]


class FactSearchResponse(TypedDict):
    message: str
    facts: list[dict[str, Any]]


class EpisodeSearchResponse(TypedDict):
    message: str
    episodes: list[dict[str, Any]]


class StatusResponse(TypedDict):
    status: str
    message: str


class Strict(FastMCP):
    """Refuses what its library lets pass."""

    async def call_tool(self, name, arguments):
        known = TOOLS.get(name, {}).get("inputSchema", {}).get("properties", {})
        if strange := sorted(set(arguments) - set(known)):
            raise ToolError(f"{name} has no argument {', '.join(strange)}")
        return await super().call_tool(name, arguments)


mcp = Strict("Graphiti Agent Memory", log_level="ERROR")


class Service:
    """The graph, and the queue of each group in front of it: in memory, as the real one has it."""

    def __init__(self, model, store, group):
        self.group, self.queues = group, {}
        self.taken, self.done, self.lost = 0, 0, []
        driver = KuzuDriver(db=store)
        # What clones of the driver are compared by; the driver itself does not set it.
        driver._database = group
        # `build_indices_and_constraints` of this driver makes none.
        connection = kuzu.Connection(driver.db)
        for query in get_fulltext_indices(GraphProvider.KUZU):
            try:
                connection.execute(query)
            except RuntimeError as error:
                if "already exists" not in str(error):
                    raise
        connection.close()
        config = LLMConfig(api_key="none", model="scripted-1", small_model="scripted-1", base_url=model)
        # The model is told in its prompt which form of answer is wanted, by which a script knows what it is asked.
        self.graph = Graphiti(
            graph_driver=driver,
            llm_client=OpenAIGenericClient(config=config, structured_output_mode="json_object"),
            embedder=Words(),
            cross_encoder=NoRanking(),
        )

    async def add(self, group, name, **episode):
        if group not in self.queues:
            self.queues[group] = asyncio.Queue()
            asyncio.create_task(self.work(group, self.queues[group]))
        self.taken += 1
        await self.queues[group].put((name, episode))

    async def work(self, group, queue):
        while True:
            name, episode = await queue.get()
            try:
                await self.graph.add_episode(name=name, group_id=group, **episode)
                self.done += 1
            except Exception as error:
                print(f"the episode {name} of {group} is lost: {error!r}", file=sys.stderr, flush=True)
                self.lost.append({"name": name, "error": str(error)})

    def groups(self, asked):
        if isinstance(asked, str):
            asked = [asked] if asked else None
        return asked if asked is not None else [self.group]


service: Service


def time_of(text):
    if text is None:
        return None
    text = text.strip()
    read = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text)
    return (read if read.tzinfo else read.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)


def iso(time):
    return time.isoformat() if time else None


def fact(edge):
    return edge.model_dump(mode="json", exclude={"fact_embedding"})


def node(entity):
    attributes = {key: value for key, value in (entity.attributes or {}).items() if "embedding" not in key.lower()}
    return NodeResult(
        uuid=entity.uuid, name=entity.name, labels=entity.labels or [], created_at=iso(entity.created_at),
        summary=entity.summary, group_id=entity.group_id, attributes=attributes,
    )


def between(after, before):
    ends = [(time_of(after), ComparisonOperator.greater_than_equal), (time_of(before), ComparisonOperator.less_than_equal)]
    ends = [DateFilter(date=time, comparison_operator=compared) for time, compared in ends if time]
    return [ends] if ends else None


@mcp.tool()
async def add_memory(
    name: str,
    episode_body: str,
    group_id: str | None = None,
    source: str = "text",
    source_description: str = "",
    uuid: str | None = None,
    reference_time: str | None = None,
    excluded_entity_types: list[str] | None = None,
    custom_extraction_instructions: str | None = None,
    previous_episode_uuids: list[str] | None = None,
    update_communities: bool = False,
    saga: str | None = None,
    saga_previous_episode_uuid: str | None = None,
) -> SuccessResponse | ErrorResponse:
    try:
        reference = time_of(reference_time)
    except ValueError as error:
        return ErrorResponse(error=f"Invalid reference_time: {error}")
    group = group_id or service.group
    kind = EpisodeType[source.lower()] if source.lower() in EpisodeType.__members__ else EpisodeType.text
    await service.add(
        group, name, episode_body=episode_body, source_description=source_description, source=kind, uuid=uuid or None,
        reference_time=reference or datetime.now(timezone.utc), excluded_entity_types=excluded_entity_types,
        previous_episode_uuids=previous_episode_uuids, custom_extraction_instructions=custom_extraction_instructions,
        update_communities=update_communities, saga=saga, saga_previous_episode_uuid=saga_previous_episode_uuid,
    )
    return SuccessResponse(message=f"Episode '{name}' queued for processing in group '{group}'")


@mcp.tool()
async def search_nodes(
    query: str,
    group_ids: str | list[str] | None = None,
    max_nodes: int = 10,
    entity_types: list[str] | None = None,
    center_node_uuid: str | None = None,
) -> NodeSearchResponse | ErrorResponse:
    try:
        found = await service.graph.search_(
            query=query, config=NODE_HYBRID_SEARCH_NODE_DISTANCE if center_node_uuid else NODE_HYBRID_SEARCH_RRF,
            group_ids=service.groups(group_ids), center_node_uuid=center_node_uuid,
            search_filter=SearchFilters(node_labels=entity_types),
        )
    except Exception as error:
        return ErrorResponse(error=f"Error searching nodes: {error}")
    nodes = [node(entity) for entity in found.nodes[:max_nodes]]
    return NodeSearchResponse(message="Nodes retrieved successfully" if nodes else "No relevant nodes found", nodes=nodes)


@mcp.tool()
async def search_memory_facts(
    query: str,
    group_ids: str | list[str] | None = None,
    max_facts: int = 10,
    center_node_uuid: str | None = None,
    edge_types: list[str] | None = None,
    valid_at_after: str | None = None,
    valid_at_before: str | None = None,
    invalid_at_after: str | None = None,
    invalid_at_before: str | None = None,
) -> FactSearchResponse | ErrorResponse:
    if max_facts <= 0:
        return ErrorResponse(error="max_facts must be a positive integer")
    try:
        valid, invalid = between(valid_at_after, valid_at_before), between(invalid_at_after, invalid_at_before)
    except ValueError as error:
        return ErrorResponse(error=f"Invalid date filter: {error}")
    wanted = SearchFilters(edge_types=edge_types or None, valid_at=valid, invalid_at=invalid)
    try:
        found = await service.graph.search(
            group_ids=service.groups(group_ids), query=query, num_results=max_facts, center_node_uuid=center_node_uuid,
            search_filter=wanted if edge_types or valid or invalid else None,
        )
    except Exception as error:
        return ErrorResponse(error=f"Error searching facts: {error}")
    facts = [fact(edge) for edge in found]
    return FactSearchResponse(message="Facts retrieved successfully" if facts else "No relevant facts found", facts=facts)


@mcp.tool()
async def delete_entity_edge(uuid: str) -> SuccessResponse | ErrorResponse:
    try:
        edge = await EntityEdge.get_by_uuid(service.graph.driver, uuid)
        await edge.delete(service.graph.driver)
    except Exception as error:
        return ErrorResponse(error=f"Error deleting entity edge: {error}")
    return SuccessResponse(message=f"Entity edge with UUID {uuid} deleted successfully")


@mcp.tool()
async def delete_episode(uuid: str) -> SuccessResponse | ErrorResponse:
    try:
        await service.graph.remove_episode(uuid)
    except Exception as error:
        return ErrorResponse(error=f"Error deleting episode: {error}")
    return SuccessResponse(message=f"Episode with UUID {uuid} deleted successfully")


@mcp.tool()
async def get_entity_edge(uuid: str) -> dict[str, Any] | ErrorResponse:
    try:
        return fact(await EntityEdge.get_by_uuid(service.graph.driver, uuid))
    except Exception as error:
        return ErrorResponse(error=f"Error getting entity edge: {error}")


@mcp.tool()
async def get_episodes(
    group_ids: str | list[str] | None = None,
    max_episodes: int = 10,
) -> EpisodeSearchResponse | ErrorResponse:
    try:
        groups = service.groups(group_ids)
        found = await EpisodicNode.get_by_group_ids(service.graph.driver, groups, limit=max_episodes) if groups else []
    except Exception as error:
        return ErrorResponse(error=f"Error getting episodes: {error}")
    episodes = [
        {"uuid": one.uuid, "name": one.name, "content": one.content, "created_at": iso(one.created_at),
         "source": one.source.value, "source_description": one.source_description, "group_id": one.group_id}
        for one in found
    ]
    message = "Episodes retrieved successfully" if episodes else "No episodes found"
    return EpisodeSearchResponse(message=message, episodes=episodes)


@mcp.tool()
async def clear_graph(group_ids: str | list[str] | None = None) -> SuccessResponse | ErrorResponse:
    groups = service.groups(group_ids)
    await clear_data(service.graph.driver, group_ids=groups)
    return SuccessResponse(message=f"Graph data cleared successfully for group IDs: {', '.join(groups)}")


@mcp.tool()
async def get_status() -> StatusResponse:
    await service.graph.driver.execute_query("MATCH (n:Entity) RETURN count(n) AS count")
    return StatusResponse(status="ok", message="Graphiti MCP server is running and connected to kuzu database")


@mcp.custom_route("/control", methods=["GET"])
async def control(_):
    return JSONResponse({"taken": service.taken, "done": service.done, "lost": service.lost})


def as_recorded():
    """Each tool is listed as the real server lists it."""
    for tool in asyncio.run(mcp.list_tools()):
        real = TOOLS[tool.name]
        for ours, theirs in ((tool.inputSchema, real["inputSchema"]), (tool.outputSchema, real["outputSchema"])):
            if ours != theirs:
                sys.exit(f"{tool.name} differs from the real server's: {json.dumps(ours)}\n{json.dumps(theirs)}")


def leave_with_input(server):
    """Ends with whoever started it."""
    while sys.stdin.buffer.read(4096):
        pass
    server.should_exit = server.force_exit = True


def main():
    global service
    asked = argparse.ArgumentParser()
    asked.add_argument("--port", type=int, default=0)
    asked.add_argument("--model", required=True)
    asked.add_argument("--store", default=":memory:")
    asked.add_argument("--group", default="main")
    asked = asked.parse_args()
    as_recorded()
    service = Service(asked.model, asked.store, asked.group)
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", asked.port))
    listening.listen(128)
    at = f"http://127.0.0.1:{listening.getsockname()[1]}"
    print(json.dumps({"url": f"{at}/mcp", "control": f"{at}/control"}), flush=True)
    server = uvicorn.Server(uvicorn.Config(mcp.streamable_http_app(), log_level="error"))
    threading.Thread(target=leave_with_input, args=[server], daemon=True).start()
    try:
        asyncio.run(server.serve(sockets=[listening]))
    finally:
        service.graph.driver.client.close()
        service.graph.driver.db.close()
        # What streams are open does not matter any more.
        os._exit(0)


if __name__ == "__main__":
    main()
