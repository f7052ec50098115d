/*---
description: >-
  Make a label to sort contacts by, such as university or Christmas cards. A name that is there already comes back with
  already_there true, in the new colour if one is given.
examples:
  - Create a label called wine lovers in red.
  - Make a new label for babysitters.
  - I need a green tag saying garden helpers for sorting people.
  - Set up a marker named ski trip that I can stick on friends.
  - It would be handy to have a category potential clients for tagging.
args:
  name: {type: string, required: true, description: "What the label says."}
  color: {type: string, description: "A colour such as #3366cc."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT l.id, l.name, l.color, l.already_there
  FROM label_create(:name::text, :color::text) l;
