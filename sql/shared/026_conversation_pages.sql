-- A person pages through conversations from the newest entry back, of the whole household or with one contact, and searches
-- them so; without these indexes each page reads all that was ever said.
-- Runs as the owner role with search_path = shared.
CREATE INDEX conversation_newest ON conversation (tenant_id, seq);
CREATE INDEX conversation_of_contact ON conversation (tenant_id, contact_id, seq) WHERE contact_id IS NOT NULL;
