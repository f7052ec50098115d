/*---
description: >-
  Say how near somebody is: 5 closest, 15 close friends, 50 good friends, 150 friends, 500 acquaintances, 1500 known by
  name. Only on the person's word, never by your own judgement. over_full tells when a circle holds more than its
  number.
examples:
  - Set the Dunbar tier of Silvia to 15.
  - Put Michael into the innermost Dunbar tier.
  - Helen is one of my five closest people in the world.
  - Ralph is merely an acquaintance, nothing more.
  - Since our hiking trip I count Anton among my good friends.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  tier: {type: integer, enum: [5, 15, 50, 150, 500, 1500], description: "The circle. Leave it out to take the contact
    out of all circles."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT d.contact_id, d.name, d.dunbar_tier, d.previous, d.in_tier, d.over_full
  FROM dunbar_tier_set(:contact_id::uuid, :tier::int) d;
