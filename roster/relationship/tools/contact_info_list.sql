/*---
description: >-
  How a contact is reached: e-mail addresses, numbers, accounts, the primary one of each type first.
examples:
  - List all contact info we have for Carla.
  - Which contact numbers and e-mails do you know of Uncle Bruno?
  - How can I reach Miriam, does she use WhatsApp?
  - What is the babysitter's phone number, I am running late?
  - I want to text Leo a photo, what is his Instagram?
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  type: {type: string, enum: [email, phone, telegram, whatsapp, signal, matrix, linkedin, instagram, facebook, website,
    other], description: "Only of this type."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
  deleted: {type: boolean, default: false, description: "True lists the removed ones instead, for
    contact_info_restore."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT i.id, i.type, i.value, i.label, i.is_primary, i.deleted_at
  FROM contact_there('contact_id', :contact_id::uuid) AS c(id),
       LATERAL (SELECT *
                  FROM contact_info i
                 WHERE i.contact_id = c.id AND (:type::text IS NULL OR i.type = :type::text)
                   AND (i.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
                 ORDER BY i.type, i.is_primary DESC, i.created_at, i.id
                 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0)) i;
