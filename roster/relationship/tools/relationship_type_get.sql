/*---
description: >-
  One type of relationship by its id: what it is called from either side.
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
