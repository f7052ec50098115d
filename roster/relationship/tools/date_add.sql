/*---
description: >-
  Note a day that comes again each year: a birthday, an anniversary, the day of a death. The same once more is one row
  and may bring the year. A person has one birthday: another day is refused. For something that is once,
  reminder_create.
examples:
  - "Add a yearly date for Elena: wedding anniversary on 14 June."
  - Save the birthday date of little Noah, 3 March 2021.
  - Mum was born on the ninth of November 1952.
  - Grandfather passed away on 2 February, I light a candle every year.
  - My goddaughter celebrates her name day on Saint Lucia, 13 December.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  label: {type: string, required: true, description: "What day it is: birthday, anniversary, name day, death, …"}
  month: {type: integer, required: true, minimum: 1, maximum: 12, description: "Month, 1 to 12."}
  day: {type: integer, required: true, minimum: 1, maximum: 31, description: "Day of the month."}
  year: {type: integer, description: "The year it began, such as the year of birth, if it is known. Never guess it."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT d.id, d.contact_id, d.label, d.month, d.day, d.year, d.already_there
  FROM date_add(:contact_id::uuid, :label::text, :month::int, :day::int, :year::int) d;
