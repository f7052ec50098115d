-- A list of a month looked through the month before as well, for what may have begun there: half of what it read, for nothing.
-- Runs as the owner role with search_path = shared.

-- What takes more than a week is looked for apart.
ALTER TABLE calendar_instances DROP COLUMN long;
ALTER TABLE calendar_instances ADD COLUMN long boolean GENERATED ALWAYS AS (ends_at - starts_at > interval '7 days') STORED;
CREATE INDEX calendar_instances_long ON calendar_instances (tenant_id, source, starts_at) WHERE long;
