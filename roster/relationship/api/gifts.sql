/*---
description: >-
  Gifts: ideas, and what was bought and given.
method: get
path: gifts
args:
  limit: {type: integer, default: 100, minimum: 1, maximum: 1000, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
---*/
SELECT g.id, c.name, g.description, g.occasion, g.status, g.price, g.currency, g.given_on
  FROM gifts g JOIN contacts c ON c.id = g.contact_id
 WHERE g.deleted_at IS NULL
 ORDER BY g.created_at DESC, g.id
 LIMIT :limit::int OFFSET :offset::int;
