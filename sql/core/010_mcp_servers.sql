-- The tools of others' MCP servers, as the owner agreed to them.
-- Runs as the owner role with search_path = <schema>, shared, public.

CREATE TABLE mcp_servers (
    -- Its name in `[mcp.servers.<name>]`.
    server        text NOT NULL,
    -- What it showed when it was first seen, or what the owner agreed to since: {tool: {description, schema}}.
    pinned        jsonb NOT NULL,
    pinned_sha256 text NOT NULL,
    pinned_at     timestamptz NOT NULL DEFAULT shared.clock(),
    -- What it shows instead, until the owner agrees.
    held          jsonb,
    held_sha256   text,
    held_at       timestamptz,
    CHECK ((held IS NULL) = (held_sha256 IS NULL) AND (held IS NULL) = (held_at IS NULL))
);
SELECT shared.tenant_table('mcp_servers', 'server');
