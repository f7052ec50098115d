-- A person pages through deliveries of some states from the newest back; see outbox_newest for those of all states.
-- Runs as the owner role with search_path = shared.
CREATE INDEX outbox_state ON outbox (tenant_id, state, seq);
-- The same of what the owner was told in the chat.
CREATE INDEX outbox_told ON outbox (tenant_id, seq) WHERE channel = 'chat' AND intent = 'send' AND state = 'sent';
