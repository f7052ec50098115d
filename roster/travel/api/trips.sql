/*---
description: Trips, the latest first.
method: get
path: trips
args:
  limit: {type: integer, default: 100, minimum: 1, maximum: 1000, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
---*/
SELECT t.id, t.name, t.destination, t.start_date, t.end_date, trip_status(t) AS status
  FROM trips t
 ORDER BY t.start_date DESC, t.id
 LIMIT :limit::int OFFSET :offset::int;
