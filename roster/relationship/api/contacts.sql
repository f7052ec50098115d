/*---
description: The people on record, by name.
method: get
path: contacts
args:
  name: {type: string, maxLength: 200, description: "Only those with this text in their name."}
  limit: {type: integer, default: 100, minimum: 1, maximum: 1000, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
---*/
SELECT c.id, c.name, c.nickname, c.company, c.stay_in_touch_days, c.last_contact_at
  FROM contacts c
 WHERE c.archived_at IS NULL AND (:name::text IS NULL OR strpos(lower(c.name), lower(:name::text)) > 0)
 ORDER BY c.name_key, c.id
 LIMIT :limit::int OFFSET :offset::int;
