/*---
description: >-
  Pairs of transactions that may be one purchase recorded twice: same amount, currency and direction, and the same
  merchant within three days, or the same reference of the bank. Two purchases recorded as such on purpose are left
  out. It changes nothing; merge_duplicates with keep_id and duplicate_id makes one of them.
examples:
  - Detect duplicates in last month's entries.
  - Are there any duplicate transactions on record?
  - Was I perhaps charged twice for the same pizza?
  - I fear my petrol receipts got entered double, from mail and bank.
  - See whether identical purchases crept in more than once.
args:
  days_back: {type: integer, default: 30, minimum: 1, maximum: 730, description: "How many days back the later one
    lies."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many pairs."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many pairs."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
WITH near AS MATERIALIZED (
    SELECT l.id, l.merchant, l.merchant_key, l.amount, l.currency, l.direction, l.posted_at, l.day, l.external_ref,
           l.copy, l.created_at
      FROM ledger l
     WHERE money_filter(:currency::text, NULL) AND l.split_of IS NULL
       AND l.posted_at >= (shared.today() - :days_back::int - 3)::timestamptz
       AND (:currency::text IS NULL OR l.currency = upper(:currency::text))
)
SELECT k.id AS keep_id, d.id AS duplicate_id, k.amount, k.currency, k.direction, k.merchant AS keep_merchant,
       d.merchant AS duplicate_merchant, k.posted_at AS keep_posted_at, d.posted_at AS duplicate_posted_at,
       CASE WHEN k.external_ref = d.external_ref THEN 'same reference' ELSE 'same merchant and amount' END AS reason
  FROM near k
  JOIN near d ON d.amount = k.amount AND d.currency = k.currency AND d.direction = k.direction
   -- The one recorded first is kept.
   AND (k.created_at, k.id) < (d.created_at, d.id)
   AND (k.external_ref = d.external_ref OR k.merchant_key = d.merchant_key AND abs(k.day - d.day) <= 3)
   AND NOT (k.merchant_key = d.merchant_key AND k.posted_at = d.posted_at AND k.copy <> d.copy)
 WHERE greatest(k.day, d.day) > shared.today() - :days_back::int
 ORDER BY greatest(k.posted_at, d.posted_at) DESC, k.id, d.id
 LIMIT :limit::int OFFSET :offset::int;
