/*---
description: >-
  Make a label to sort contacts by, such as university or Christmas cards. A name that is there already comes back with
  already_there true, in the new colour if one is given.
args:
  name: {type: string, required: true, description: "What the label says."}
  color: {type: string, description: "A colour such as #3366cc."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT l.id, l.name, l.color, l.already_there
  FROM label_create(:name::text, :color::text) l;
