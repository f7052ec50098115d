/*---
description: >-
  Note a person in the register. Look with contact_resolve first. A name that is on record already comes back as that
  contact with already_there true; if you gave something beyond what is on record it is refused, and contact_update is
  the tool. Give what you were told and nothing guessed.
examples:
  - Create a new contact for Lea Hofmann, a graphic designer.
  - Add a contact called Dr. Ruben Stein, our vet.
  - I met a guy named Marco at the gym, remember who he is.
  - The new nanny is called Sophie Lang, she is not on record yet.
  - "Our neighbours upstairs since Monday: Daniel Petrov, an architect from Sofia."
args:
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
  entity_id: {type: string, format: uuid, description: "The entity that memory knows as this person, from
    memory_entity_resolve. Usually left out: it is found by the name, or made."}
  another: {type: boolean, default: false, description: "True if this is a second person of a name that is there
    already."}
returns: value
meta: {reads_private: true, effect: idempotent}
---*/
SELECT contact_create(jsonb_build_object(
    'name', :name::text, 'first_name', :first_name::text, 'last_name', :last_name::text,
    'nickname', :nickname::text, 'company', :company::text, 'job_title', :job_title::text, 'gender', :gender::text,
    'pronouns', :pronouns::text, 'avatar_url', :avatar_url::text, 'listed', :listed::boolean,
    'details', :details::jsonb, 'metadata', :metadata::jsonb, 'entity_id', :entity_id::uuid),
    :another::boolean);
