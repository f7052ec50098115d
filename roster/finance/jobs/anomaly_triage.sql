/*---
description: >-
  Spending out of the ordinary among what was recorded since 21:00 of the day before. Meant to run once a day at 21:00
  or later.
prompt: >-
  Run the anomaly-triage workflow on these transactions, which were recorded since yesterday evening and are out of
  the ordinary. Tell the owner only what is worth their attention; if nothing is, end without a message.
---*/
SELECT a.transaction_id, a.posted_at, a.merchant, a.category, a.amount, a.currency, a.kind, a.usual_amount,
       a.compared_with, a.score
  FROM (SELECT date_trunc('day', shared.clock() AT TIME ZONE current_setting('TimeZone') - interval '21 hours')
               + interval '21 hours') w(upto),
       LATERAL money_anomalies((w.upto - interval '1 day')::timestamptz, w.upto::timestamptz, true, 2.5) a;
