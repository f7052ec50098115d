/*---
description: What is missing, clashes or is to be done for the trips of the next weeks, the urgent first.
method: get
path: open-points
args:
  days: {type: integer, default: 60, minimum: 0, maximum: 731, description: "How many days ahead a trip may begin."}
returns: rows
card: {kind: table, title: Open points, columns: [trip, message, urgent]}
---*/
SELECT t.name AS trip, p.message, p.urgent, p.day
  FROM trips t CROSS JOIN LATERAL trip_points(t) p
 WHERE t.cancelled_at IS NULL AND t.end_date >= shared.today() AND t.start_date <= shared.today() + :days::int
 ORDER BY p.urgent DESC, p.day, t.start_date, p.message;
