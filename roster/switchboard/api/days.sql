/*---
description: >-
  Messages that came in, by day: dealt with, still open, or dead (given up after several tries).
method: get
path: days
args:
  days: {type: integer, default: 14, minimum: 1, maximum: 366, description: "How many days back, today included."}
returns: rows
card: {kind: bar, title: Messages, x: day, y: [done, open, dead], unit: messages}
---*/
SELECT (m.received_at AT TIME ZONE current_setting('TimeZone'))::date AS day,
       count(*) FILTER (WHERE m.state = 'done') AS done,
       count(*) FILTER (WHERE m.state IN ('accepted', 'processing')) AS open,
       count(*) FILTER (WHERE m.state = 'dead') AS dead
  FROM message_inbox m
 WHERE m.received_at >= (shared.today() - :days::int + 1)::timestamp AT TIME ZONE current_setting('TimeZone')
 GROUP BY 1
 ORDER BY 1;
