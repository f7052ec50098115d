/*---
description: >-
  Make a group of people who belong together: a family, a club, a team. A name that is there already comes back with
  already_there true. For sorting contacts by a word, labels are lighter: label_create.
examples:
  - Create a group for the hiking club.
  - Make a new group called Schneider family.
  - We founded a poker round, keep those guys together under Aces.
  - I want the parents from the kindergarten gathered as one bunch.
  - Start a circle for the people in our apartment building.
args:
  name: {type: string, required: true, description: "What the group is called."}
  type: {type: string, description: "What it is: family, friends, club, team, neighbours, …"}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT g.id, g.name, g.type, g.already_there
  FROM group_create(:name::text, :type::text) g;
