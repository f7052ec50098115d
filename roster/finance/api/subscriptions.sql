/*---
description: The subscriptions that are not cancelled, with their price and next renewal, soonest first.
method: get
path: subscriptions
returns: rows
card: {kind: table, title: Subscriptions, columns: [service, amount, currency, frequency, next_renewal]}
---*/
SELECT s.id, s.service, s.amount, s.currency, s.frequency, money_renewal(s) AS next_renewal, s.status, s.auto_renew
  FROM subscriptions s
 WHERE s.status <> 'cancelled'
 ORDER BY money_renewal(s), s.service_key;
