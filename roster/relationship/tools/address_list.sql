/*---
description: >-
  The postal addresses of a contact, the current ones first.
examples:
  - What addresses do we have for Aunt Heidi?
  - Show me the postal address of the Bergers.
  - Where does Nadia live these days, I want to mail her a parcel?
  - Which street do I write on the wedding invitation envelope for Oscar?
  - I am driving to Paul's, what should I type into the navigation?
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
  deleted: {type: boolean, default: false, description: "True lists the removed ones instead, for address_restore."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT a.id, a.label, a.line_1, a.line_2, a.city, a.province, a.postal_code, a.country, a.is_current, a.deleted_at
  FROM contact_there('contact_id', :contact_id::uuid) AS c(id),
       LATERAL (SELECT *
                  FROM addresses a
                 WHERE a.contact_id = c.id AND (a.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
                 ORDER BY a.is_current DESC, a.created_at, a.id
                 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0)) a;
