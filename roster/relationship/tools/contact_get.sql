/*---
description: >-
  All that is known of one contact: names, work, ways to reach them (contact_info), addresses, dates, facts, labels,
  groups and relationships, with the ids that the other tools take. An archived contact shows archived_at; of one that
  was merged you get the one it was merged into, with merged_from. Interactions, notes, gifts and loans have lists of
  their own.
examples:
  - Show me the full contact record of Beatrice.
  - Get everything in the contact entry for Hannes.
  - Tell me all you know about my brother-in-law Frank.
  - Who exactly is Mrs. Okafor, with job, family and phone?
  - Give me the whole profile of the new kindergarten teacher.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  allow_missing: {type: boolean, default: false, description: "True returns null where there is none, in the place of a
    refusal."}
returns: value
meta: {reads_private: true, effect: none}
---*/
SELECT c.card
  FROM (SELECT contact_card(:contact_id::uuid) AS card) c
 WHERE c.card IS NOT NULL OR coalesce(:allow_missing::boolean, false)
    OR shared.refuse('There is no contact with that id. contact_search or contact_resolve gives the id of a contact.');
