-- A person pages through messages from the newest back, of all states or of one. A state that few messages are in must not
-- mean that all others are read to find them.
-- Runs as the owner role with search_path = <schema>, shared, public.
CREATE INDEX message_inbox_newest ON message_inbox (tenant_id, seq);
CREATE INDEX message_inbox_state ON message_inbox (tenant_id, state, seq);
