/*---
description: >-
  Change what is on record of a contact. Give only what changes; an empty text takes a value away, and in details and
  metadata a key with null goes. What it said before comes back as previous and is kept; changed false means that it
  was so already.
examples:
  - Update the contact of Johanna, she now works for Novartis.
  - Change the contact name from Fischer to Fischer-Lang.
  - Rahul got promoted, his job title is head of sales now.
  - Everyone calls Maximilian Maxi, put that as his nickname.
  - I spelled Cathrine wrong, it begins with a K.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  name: {type: string, description: "How the person calls them. Left out, it is made of first and last name."}
  first_name: {type: string, description: "First name."}
  last_name: {type: string, description: "Family name."}
  nickname: {type: string, description: "What friends call them."}
  company: {type: string, description: "Where they work."}
  job_title: {type: string, description: "What they do there."}
  gender: {type: string, description: "As they say it."}
  pronouns: {type: string, description: "As they say it, such as she/her."}
  avatar_url: {type: string, description: "Web address of a picture, https://…."}
  listed: {type: boolean, description: "False keeps them out of address lists that are handed out."}
  details: {type: object, description: "Free facts with the contact. For single facts that are asked for later,
    fact_set."}
  metadata: {type: object, description: "Where the contact comes from, for programs."}
  entity_id: {type: string, format: uuid, description: "Tie the contact to this entity of memory, from
    memory_entity_resolve, if it is the same person."}
returns: value
meta: {reads_private: true, effect: idempotent}
---*/
SELECT contact_update(:contact_id::uuid, jsonb_build_object(
    'name', :name::text, 'first_name', :first_name::text, 'last_name', :last_name::text,
    'nickname', :nickname::text, 'company', :company::text, 'job_title', :job_title::text, 'gender', :gender::text,
    'pronouns', :pronouns::text, 'avatar_url', :avatar_url::text, 'listed', :listed::boolean,
    'details', :details::jsonb, 'metadata', :metadata::jsonb, 'entity_id', :entity_id::uuid));
