/*---
description: >-
  The labels with the number of contacts that have them, by name; all, or those of one contact.
examples:
  - List all labels I use.
  - Which labels does Florian have?
  - What tags exist for sorting my people?
  - How is Marianne tagged right now?
  - How many people carry each of my colour markers?
args:
  contact_id: {type: string, format: uuid, description: "Only labels of this contact."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT l.id, l.name, l.color, l.contacts
  FROM labels_of(:contact_id::uuid, coalesce(:limit::int, 50), coalesce(:offset::int, 0)) l;
