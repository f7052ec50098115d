/*---
description: >-
  Whose an e-mail address, a number or an account is. match says how: exact, number (the same digits, with or without
  the country code) or part. Use it for an unknown sender or caller, or for everyone at a domain.
examples:
  - Search which contact has the number 079 400 22 11.
  - Find the contact with the e-mail lena@web.de.
  - A stranger rang me from +49 170 8812345, whose is it?
  - Who is hiding behind the handle skywalker88 on Telegram?
  - I have a missed call ending in 7763, do we know the caller?
args:
  value: {type: string, required: true, description: "The address, number or account, or at least 3 characters of it."}
  type: {type: string, enum: [email, phone, telegram, whatsapp, signal, matrix, linkedin, instagram, facebook, website,
    other], description: "Only of this type."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT f.contact_id, f.name, f.contact_info_id, f.type, f.value, f.label, f.match
  FROM contacts_by_info(:value::text, :type::text, coalesce(:limit::int, 50), coalesce(:offset::int, 0)) f;
