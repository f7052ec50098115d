/*---
description: >-
  Untie two people, when a tie is wrong or has ended. An end may be worth noting: after a divorce add ex-partner.
  relationship_restore ties them again.
examples:
  - Remove the relationship between Harald and Susanne.
  - Delete the relationship that says Mark is my boss.
  - Ute and Gerhard broke up, they are no longer a couple.
  - Liam is not her brother, untie those two.
  - Bianca stopped being my flatmate in autumn, cut that tie.
args:
  contact_a: {type: string, format: uuid, description: "One of the two. Leave it out for the person themself."}
  contact_b: {type: string, format: uuid, required: true, description: "The other one."}
  type: {type: string, description: "Only this tie, by what either is to the other; left out: all ties between the
    two."}
returns: rows
meta: {reads_private: true, effect: idempotent}
---*/
SELECT r.id, r.contact_a, r.contact_b, r.type, r.reverse, r.deleted_at
  FROM relationship_set_deleted(:contact_a::uuid, :contact_b::uuid, :type::text, true) r;
