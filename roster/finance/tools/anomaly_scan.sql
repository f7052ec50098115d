/*---
description: >-
  Spending of the last days that is out of the ordinary: far above what the same merchant (unusual_for_merchant) or
  category (unusual_for_category) usually costs, or among the largest at a merchant never seen before
  (large_at_new_merchant). compared_with is on how many earlier transactions it rests; where there are too few nothing
  is said. Unusual is not wrong: the anomaly-triage skill says how to go on.
examples:
  - Scan the last week for any anomalies in our payments.
  - Was there unusual spending on my card in the past fortnight?
  - I have a nagging feeling somebody misused my credit card on holiday.
  - Did any shop charge us way more than it normally does?
  - Something smells fishy about our money lately; spot weird huge purchases.
args:
  days_back: {type: integer, default: 7, minimum: 1, maximum: 365, description: "How many days back to look."}
  sensitivity: {type: number, default: 2.5, minimum: 1, maximum: 20, description: "How far above the usual; smaller
    finds more."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT a.transaction_id, a.posted_at, a.merchant, a.category, a.amount, a.currency, a.kind, a.usual_amount,
       a.compared_with, a.score
  FROM money_anomalies((shared.today() - :days_back::int)::timestamptz, 'infinity', false, :sensitivity::numeric) a
 WHERE money_filter(:currency::text, NULL) AND (:currency::text IS NULL OR a.currency = upper(:currency::text))
 ORDER BY a.posted_at DESC, a.transaction_id
 LIMIT :limit::int OFFSET :offset::int;
