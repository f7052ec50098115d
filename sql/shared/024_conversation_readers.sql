-- A butler that reads on, or counts what it has not read, finds its own entries without looking at those of others.
-- Runs as the owner role with search_path = shared.
CREATE INDEX conversation_readers_of ON conversation_readers (tenant_id, butler, id);
