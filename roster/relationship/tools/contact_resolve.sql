/*---
description: >-
  Whom a name or a word such as "my sister" or "Tom from the chess club" means. Call it before any tool that needs a
  contact_id. match is exact or likely (take contact_id; say the full name in the answer if it is only likely),
  ambiguous (several fit: ask the person, naming the candidates), or none (nobody is on record: ask, or
  contact_create). Each candidate says why.
examples:
  - Which contact do I mean by Tom from the chess club?
  - Resolve whom the name Alex refers to.
  - Who is my sister according to your records?
  - I said Maria from the bakery, do you know which one?
  - Do you understand who I am talking about when I say my boss?
args:
  name: {type: string, required: true, description: "The name, nickname, or word for a relative or friend, in
    English."}
  context: {type: string, description: "What else was said of them: place, work, club, who was with them. It decides
    between people of one name."}
returns: value
meta: {reads_private: true, effect: none}
---*/
SELECT contact_resolve(:name::text, :context::text);
