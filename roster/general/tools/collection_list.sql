/*---
description: >-
  The collections, by name, each with the number of its items and when one last changed. item_search looks into them.
examples:
  - List my collections by name.
  - Which collections do you keep, and how many items in each?
  - What sorts of things have I been jotting down with you so far?
  - Do we already have somewhere for gift ideas?
  - Which of my notebooks and catalogues got touched since Monday?
args:
  changed_since: {type: string, description: "Only those in which an item was added or changed since this day
    (YYYY-MM-DD) or moment."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many."}
  deleted: {type: boolean, default: false, description: "True lists the deleted ones instead, for collection_restore."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT c.id, c.name, c.description, n.items, coalesce(n.changed_at, c.created_at) AS changed_at
  FROM collections c
 CROSS JOIN LATERAL (SELECT count(*)::int AS items, max(coalesce(i.updated_at, i.created_at)) AS changed_at
                       FROM items i WHERE i.collection_id = c.id AND i.deleted_at IS NULL) n
 WHERE (c.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
   AND coalesce(n.changed_at, c.created_at) >= shared.bound('changed_since', :changed_since::text, false)
   AND (SELECT CASE WHEN shared.moment('changed_since', :changed_since::text) > shared.clock()
                    THEN shared.refuse('changed_since lies in the future. Give a day that has begun, or leave it out.')
                    ELSE true END)
 ORDER BY lower(c.name), c.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
