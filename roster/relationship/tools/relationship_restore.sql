/*---
description: >-
  Tie two people again who were untied last, as they were.
examples:
  - Restore the relationship between Harald and Susanne.
  - Bring back the relationship I removed with my uncle.
  - Ute and Gerhard are together again, tie them as they were.
  - Liam was her brother all along, reverse the untying.
  - We cut him off as my godfather wrongly, reconnect us as before.
args:
  contact_a: {type: string, format: uuid, description: "One of the two. Leave it out for the person themself."}
  contact_b: {type: string, format: uuid, required: true, description: "The other one."}
  type: {type: string, description: "Only this tie, by what either is to the other; left out: all ties between the
    two."}
returns: rows
meta: {reads_private: true, effect: idempotent}
---*/
SELECT r.id, r.contact_a, r.contact_b, r.type, r.reverse, r.deleted_at
  FROM relationship_set_deleted(:contact_a::uuid, :contact_b::uuid, :type::text, false) r;
