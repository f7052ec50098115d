/*---
description: Over which channels deliveries went in the last days, the busiest first.
method: get
path: channels
args:
  days: {type: integer, default: 30, minimum: 1, maximum: 366, description: "How many days back, today included."}
returns: rows
card: {kind: table, title: Channels of 30 days, columns: [channel, sent, wrong]}
---*/
SELECT d.channel, coalesce(sum(d.deliveries) FILTER (WHERE d.state = 'sent'), 0) AS sent,
       coalesce(sum(d.deliveries) FILTER (WHERE d.state IN ('failed', 'dead', 'unknown')), 0) AS wrong
  FROM shared.delivery_days(:days::int) d
 GROUP BY d.channel
 ORDER BY sent DESC, d.channel;
