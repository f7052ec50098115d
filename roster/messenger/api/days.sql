/*---
description: >-
  What was to leave the household, by day: sent, still waiting, called off, or gone wrong (failed, given up, or nobody
  knows whether it arrived).
method: get
path: days
args:
  days: {type: integer, default: 14, minimum: 1, maximum: 366, description: "How many days back, today included."}
returns: rows
card: {kind: bar, title: Deliveries, x: day, y: [sent, waiting, wrong], unit: deliveries}
---*/
SELECT d.day, coalesce(sum(d.deliveries) FILTER (WHERE d.state = 'sent'), 0) AS sent,
       coalesce(sum(d.deliveries) FILTER (WHERE d.state IN ('pending', 'deferred', 'sending')), 0) AS waiting,
       coalesce(sum(d.deliveries) FILTER (WHERE d.state IN ('failed', 'dead', 'unknown')), 0) AS wrong,
       coalesce(sum(d.deliveries) FILTER (WHERE d.state = 'called_off'), 0) AS called_off
  FROM shared.delivery_days(:days::int) d
 GROUP BY d.day
 ORDER BY d.day;
