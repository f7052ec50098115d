/*---
description: >-
  Make a group of people who belong together: a family, a club, a team. A name that is there already comes back with
  already_there true. For sorting contacts by a word, labels are lighter: label_create.
args:
  name: {type: string, required: true, description: "What the group is called."}
  type: {type: string, description: "What it is: family, friends, club, team, neighbours, …"}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT g.id, g.name, g.type, g.already_there
  FROM group_create(:name::text, :type::text) g;
