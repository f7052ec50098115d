/*---
description: >-
  The days of a contact that come again each year, in the order of the calendar, each with the next time it comes. For
  all contacts together, upcoming_dates.
examples:
  - List the special dates of Ursula.
  - What yearly dates do you have for my husband?
  - When is Philipp's birthday?
  - On which day did Rosa and her hubby marry?
  - How old will my nephew Tim be and when does he celebrate?
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
  deleted: {type: boolean, default: false, description: "True lists the removed ones instead, for date_restore."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT d.id, d.label, d.month, d.day, d.year, shared.next_anniversary(d.month, d.day, shared.today()) AS next,
       d.deleted_at
  FROM contact_there('contact_id', :contact_id::uuid) AS c(id),
       LATERAL (SELECT *
                  FROM important_dates d
                 WHERE d.contact_id = c.id AND (d.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
                 ORDER BY d.month, d.day, d.label, d.id
                 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0)) d;
