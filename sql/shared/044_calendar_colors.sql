-- Colours of Google's events, which nobody kept: what was read before says nothing of them, and an edit of it would take them
-- away there. All of it is read again, once.
-- Runs as the owner role with search_path = shared.

UPDATE calendar_items i SET etag = NULL FROM calendar_sources s
WHERE s.tenant_id = i.tenant_id AND s.id = i.source AND s.provider = 'google' AND i.base IS NOT NULL
  AND EXISTS (SELECT FROM calendar_events e WHERE e.tenant_id = i.tenant_id AND e.id = i.id);
UPDATE calendar_cursors c SET read_all = true, asked = true FROM calendar_sources s
WHERE s.tenant_id = c.tenant_id AND s.id = c.source AND s.provider = 'google';
