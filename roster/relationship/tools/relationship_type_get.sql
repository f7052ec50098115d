/*---
description: >-
  One type of relationship by its id: what it is called from either side.
examples:
  - Get the relationship type with this id.
  - What does that one relationship type say from either side?
  - What is a godmother called seen from the child?
  - If somebody is my mentor, what word describes me to them?
  - Look up this single kind of tie and tell me its reverse wording.
args:
  type_id: {type: string, format: uuid, required: true, description: "The id that relationship_types_list or
    relationship_add gave."}
returns: row
meta: {reads_private: true, effect: none}
---*/
SELECT t.id, t."group", t.forward_label, t.reverse_label
  FROM (SELECT 1) one LEFT JOIN relationship_words() t ON t.id = :type_id::uuid
 WHERE t.id IS NOT NULL
    OR shared.refuse('There is no type of relationship with that id; relationship_types_list shows them.');
