/*---
description: >-
  Birthdays, anniversaries and other days of all contacts that come within the next days, the next first, today
  included. turns is how many years it will be, where the year is known. No rows: nothing comes in that time.
examples:
  - Which dates are upcoming in the next two weeks?
  - Show the upcoming birthday dates this month.
  - Whose birthday is next?
  - Do I have to buy a card for anyone soon?
  - Is anybody among family and friends celebrating an anniversary this week?
args:
  days_ahead: {type: integer, default: 30, description: "How many days ahead, 0 to 366."}
  label: {type: string, description: "Only days of this label, such as birthday."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT d.date, d.days_until, d.contact_id, d.name, d.label, d.turns, d.date_id
  FROM dates_ahead(coalesce(:days_ahead::int, 30)) d
 WHERE :label::text IS NULL OR lower(d.label) = lower(btrim(:label::text))
 ORDER BY d.date, d.name, d.label, d.date_id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
