/*---
description: The trip that is under way or comes next, and in how many days it begins.
method: get
path: next-trip
returns: row
card: {kind: number, title: Days until the next trip, value: days, unit: days, note: about}
---*/
SELECT greatest(t.start_date - shared.today(), 0) AS days, t.name, t.destination, t.start_date, t.end_date,
       t.name || ', ' || to_char(t.start_date, 'FMDD Mon') || ' to ' || to_char(t.end_date, 'FMDD Mon YYYY') AS about,
       t.id
  FROM trips t
 WHERE t.cancelled_at IS NULL AND t.end_date >= shared.today()
 ORDER BY t.start_date, t.id
 LIMIT 1;
