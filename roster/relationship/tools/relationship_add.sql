/*---
description: >-
  Note what two people are to each other: contact_b is the type of contact_a. "Anna is my sister" is contact_b Anna,
  type sister, and no contact_a. The other side follows by itself. The same tie said again, or from the other side, is
  one, and becomes more exact (sibling, then brother); already_there tells. sentence says what is on record now: check
  it. Ties to the person are what contact_resolve, memory and messages know "my sister" by.
examples:
  - Add the relationship that Anna is my sister.
  - "Record a relationship: Dominic is the boss of Ella."
  - Lorenz is married to my cousin Hedwig.
  - Mr. Sato is the father of my flatmate.
  - Wanda and Quentin have been a couple since the summer.
args:
  contact_a: {type: string, format: uuid, description: "The one whom it is said of: in Ben's sister, Ben. Leave it out
    for the person themself: my sister."}
  contact_b: {type: string, format: uuid, required: true, description: "The other one: in Ben's sister, the sister."}
  type: {type: string, description: "What contact_b is to contact_a, in English: sister, husband, friend, boss, …
    relationship_types_list shows all."}
  type_id: {type: string, format: uuid, description: "In the place of type: an id from relationship_types_list."}
  notes: {type: string, description: "What else is to be said of it, such as since when."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT r.id, r.contact_a, r.contact_b, r.type, r.reverse, r.sentence, r.notes, r.already_there
  FROM relationship_add(:contact_a::uuid, :contact_b::uuid, :type::text, :type_id::uuid, :notes::text) r;
