/*---
description: >-
  The people around somebody by the relationships on record, over up to four ties, the nearest first; way says how:
  "sister > husband". For ties that memory knows from facts take memory_entity_neighbors.
examples:
  - Show the neighbors of the entity Charlotte up to three ties.
  - Which entities are neighbors of my cousin Viktor?
  - Who surrounds Aunt Gerda, with her in-laws and their children?
  - How am I connected to Fabian, through whose husband or sister?
  - Draw me the extended family web around my grandmother.
args:
  entity_id: {type: string, format: uuid, required: true, description: "The entity, or the contact, to begin at."}
  max_depth: {type: integer, default: 2, minimum: 1, maximum: 4, description: "Over how many ties."}
  predicate_filter: {type: array, items: {type: string}, description: "Only along these types, such as [sister,
    brother]."}
  direction: {type: string, enum: [outgoing, incoming, both], default: both, description: "outgoing: as ties were
    noted, from contact_a to contact_b; incoming: against it."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT n.contact_id, n.entity_id, n.name, n.steps, n.way
  FROM entity_neighbors(:entity_id::uuid, coalesce(:max_depth::int, 2), :predicate_filter::text[],
                        coalesce(:direction::text, 'both'), coalesce(:limit::int, 50), coalesce(:offset::int, 0)) n;
