/*---
description: >-
  Contacts in which every word of the query stands somewhere: in names, work, details, facts, labels, groups, towns or
  ways to reach them. For whom a name means in a sentence take contact_resolve, for a number or an address
  contact_search_by_info.
examples:
  - Search my contacts for architects in Vienna.
  - Find all contacts who work at Siemens.
  - Whom do I know that speaks Portuguese or lives near Lisbon?
  - Is there any lawyer among my acquaintances?
  - Who of my people could fix a leaking roof or is a roofer?
args:
  query: {type: string, description: "One or more words or beginnings of words. Leave it out for all contacts by
    name."}
  limit: {type: integer, default: 20, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
  archived: {type: boolean, default: false, description: "True looks among the archived contacts instead, for
    contact_restore."}
  from_strangers: {type: boolean, default: false, description: "True looks among the contacts that stand on a
    stranger's word alone instead."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT f.id, f.name, f.nickname, f.company, f.job_title, f.last_contact_at, f.entity_id, f.merged_into, f.archived_at
  FROM contacts_found(:query::text, coalesce(:archived::boolean, false), coalesce(:from_strangers::boolean, false),
                      coalesce(:limit::int, 20), coalesce(:offset::int, 0)) f;
