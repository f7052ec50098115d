-- The messages of the last days are found by their time.
-- Runs as the owner role with search_path = <schema>, shared, public.

CREATE INDEX message_inbox_received ON message_inbox (tenant_id, received_at);
