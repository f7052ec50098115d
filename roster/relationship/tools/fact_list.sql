/*---
description: >-
  The facts that are noted of a contact, by key.
examples:
  - List the facts we know about Yvonne.
  - What facts are stored for my colleague Henrik?
  - Does Lukas have allergies, I am cooking tonight?
  - What shoe size and favourite wine does my mother-in-law have?
  - Remind me of her tastes and hobbies before I book a restaurant.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
  deleted: {type: boolean, default: false, description: "True lists the removed ones instead, for fact_restore."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT f.id, f.key, f.value, coalesce(f.updated_at, f.created_at) AS noted_at, f.revisions AS earlier, f.deleted_at
  FROM contact_there('contact_id', :contact_id::uuid) AS c(id),
       LATERAL (SELECT *
                  FROM quick_facts f
                 WHERE f.contact_id = c.id AND (f.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
                 ORDER BY f.key, f.created_at, f.id
                 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0)) f;
