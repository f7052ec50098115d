/*---
description: >-
  The contacts that have a label, by name. label_list shows the labels.
examples:
  - Search all contacts with the label wine lovers.
  - Show the contacts that carry the label university.
  - Who is tagged as Christmas cards this year?
  - Give me everybody I marked as tennis partner.
  - I am planning the barbecue, who has the vegetarian tag?
args:
  label_name: {type: string, required: true, description: "What the label says; small and capital letters are one."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT c.id, c.name, c.nickname, c.company, c.last_contact_at
  FROM label_named(:label_name::text) AS l(id),
       LATERAL (SELECT c.*
                  FROM contact_labels m JOIN contacts c ON c.id = m.contact_id
                 WHERE m.label_id = l.id AND m.deleted_at IS NULL AND c.archived_at IS NULL
                 ORDER BY c.name_key, c.id
                 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0)) c;
