/*---
description: >-
  To whom a contact is tied: is_their says what the other one is to this contact, who_is_their what this contact is to
  the other one. Over more than one tie, entity_neighbors.
examples:
  - List the relationships of Benedikt.
  - What relationships does Friederike have to others?
  - Who are Josef's siblings and wife?
  - What are the names of Carmen's children?
  - Whose godfather or colleague is Mr. Novak?
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact. For the person themself resolve
    me."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT t.relationship_id, t.contact_id, t.name, t.is_their, t.who_is_their, t."group", t.notes, t.contact_is_owner
  FROM contact_there('contact_id', :contact_id::uuid) AS c(id),
       LATERAL (SELECT * FROM ties_of(c.id, coalesce(:limit::int, 50), coalesce(:offset::int, 0))) t;
