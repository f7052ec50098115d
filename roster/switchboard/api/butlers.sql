/*---
description: To which butlers the messages of the last days went, and who chose them, the busiest butler first.
method: get
path: butlers
args:
  days: {type: integer, default: 30, minimum: 1, maximum: 366, description: "How many days back, today included."}
returns: rows
card: {kind: table, title: Who got the messages of 30 days, columns: [butler, messages, by_a_model]}
---*/
SELECT s.butler, count(DISTINCT s.request_id) AS messages,
       count(DISTINCT s.request_id) FILTER (WHERE s.chosen_by = 'model') AS by_a_model
  FROM message_inbox m JOIN route_segments s ON s.request_id = m.request_id AND s.state <> 'draft'
 WHERE m.received_at >= (shared.today() - :days::int + 1)::timestamp AT TIME ZONE current_setting('TimeZone')
 GROUP BY s.butler
 ORDER BY messages DESC, s.butler;
