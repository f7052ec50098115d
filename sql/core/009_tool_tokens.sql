-- What the schemas of a session's tools take of each request, so that costs can show it apart.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Tokens, about, of the tools that the session was told of at its start; null: it had none, or began before they were counted.
ALTER TABLE sessions ADD COLUMN tool_tokens integer;
-- The same times the model calls of each session; null: known of none.
ALTER TABLE session_days ADD COLUMN schema_tokens bigint;
