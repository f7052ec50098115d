/*---
description: >-
  Merchants that charge, or pay, at even distances by the ledger of the last two years: frequency, usual and last
  amount, next expected day. active is false if the last one is long past. tracked says whether a subscription or bill
  of that name is tracked. It changes nothing; offer track_subscription or track_bill for what the person wants
  reminders of.
examples:
  - Detect recurring payments in the ledger.
  - Which merchants charge us on a recurring basis?
  - Who takes money from us every month like clockwork?
  - What regular debits am I overlooking, maybe old donations or clubs?
  - On which day does my salary usually land, judging by past ones?
args:
  min_occurrences: {type: integer, default: 3, minimum: 2, maximum: 100, description: "How often at least it must have
    happened."}
  direction: {type: string, enum: [debit, credit], description: "Only money out, or only money in (such as wages)."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT r.merchant, r.currency, r.direction, r.category, r.frequency, r.occurrences, r.typical_amount, r.last_amount,
       r.lowest_amount, r.highest_amount, r.first_day, r.last_day, r.next_expected, r.active,
       CASE WHEN EXISTS (SELECT 1 FROM subscriptions s WHERE money_merchant_key(s.service) = r.merchant_key)
            THEN 'subscription'
            WHEN EXISTS (SELECT 1 FROM bills b WHERE b.payee_key = r.merchant_key) THEN 'bill' END AS tracked
  FROM money_recurring(:min_occurrences::int) r
 WHERE money_filter(:currency::text, NULL)
   AND (:direction::text IS NULL OR r.direction = :direction::text)
   AND (:currency::text IS NULL OR r.currency = upper(:currency::text))
 ORDER BY r.active DESC, r.currency, r.direction, r.typical_amount DESC, r.merchant_key
 LIMIT :limit::int OFFSET :offset::int;
