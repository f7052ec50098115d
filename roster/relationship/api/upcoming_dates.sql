/*---
description: Birthdays and other days of the next weeks.
method: get
path: upcoming-dates
args:
  days: {type: integer, default: 60, minimum: 0, maximum: 366, description: "How many days ahead."}
returns: rows
card: {kind: timeline, title: Days to come, at: date, label: what}
---*/
SELECT d.date, d.name || ', ' || d.label || coalesce(' (' || d.turns || ')', '') AS what, d.days_until, d.contact_id
  FROM dates_ahead(:days::int) d
 ORDER BY d.date, d.name, d.label, d.date_id;
