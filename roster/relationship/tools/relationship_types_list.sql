/*---
description: >-
  The types of relationship: forward_label is what contact_b is to contact_a, reverse_label what contact_a is to
  contact_b then.
examples:
  - List all relationship types you know.
  - Which relationship types are in the family group?
  - What kinds of ties between people can you record?
  - Can you distinguish stepbrother, half-brother and foster child?
  - Which words for romantic or business connections do you understand?
args:
  group: {type: string, description: "Only of one group: love, family, friend, work or other."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT t.id, t."group", t.forward_label, t.reverse_label
  FROM relationship_words() t
 WHERE CASE WHEN :group::text IS NULL THEN true
            WHEN lower(:group::text) IN ('love', 'family', 'friend', 'work', 'other')
                 THEN t."group" = lower(:group::text)
            ELSE shared.refuse('There is no such group of types. The groups are love, family, friend, work, other.') END
 ORDER BY array_position(ARRAY['love', 'family', 'friend', 'work', 'other'], t."group"), t.forward_label;
