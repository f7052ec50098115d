/*---
description: >-
  Note an e-mail address, a number or an account of a contact. The same value of the same contact stands once:
  already_there is true then. also_of names others who have it too. messages_reach true means that the household's
  messages now reach them there, and that what they write from there is theirs.
examples:
  - "Add contact info for Sarah: her mobile is +41 79 555 12 34."
  - Save the new e-mail contact of Gustav, gustav@posteo.de.
  - Nina switched to Telegram, she is called ninabee there.
  - Dad finally has a cell phone, the number ends in 4471.
  - From today the piano teacher writes from his Signal account instead.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  type: {type: string, required: true, enum: [email, phone, telegram, whatsapp, signal, matrix, linkedin, instagram,
    facebook, website, other], description: "What it is. LinkedIn and the like: the account's name or its web
    address."}
  value: {type: string, required: true, description: "The address, number or name, as written. Numbers best with their
    country code: +41 79 123 45 67."}
  label: {type: string, description: "Which one it is, such as work or home."}
  is_primary: {type: boolean, default: false, description: "True: the one to use first of its type; another one loses
    that."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT i.id, i.contact_id, i.type, i.value, i.label, i.is_primary, i.already_there, i.messages_reach, i.also_of
  FROM contact_info_add(:contact_id::uuid, :type::text, :value::text, :label::text, :is_primary::boolean) i;
