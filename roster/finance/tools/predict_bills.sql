/*---
description: >-
  Payments to expect that no tracked bill covers yet: later dates of recurring bills (basis bill), and charges that
  come again by the ledger without being tracked as a bill or subscription (basis history). The amounts are
  expectations. Offer track_bill for what the person wants to be reminded of.
examples:
  - Predict the bills for the next two months.
  - Which bills can you predict that aren't tracked yet?
  - What costs will probably hit us in autumn that I haven't noted?
  - Any invoices likely to turn up that nobody has told you about?
  - I'm dreading surprises; guess which payments come again before summer.
args:
  days_ahead: {type: integer, default: 30, minimum: 1, maximum: 400, description: "How many days ahead to look."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT p.payee, p.expected_date, p.amount, p.currency, p.frequency, p.basis, p.occurrences
  FROM (SELECT b.payee, d.day AS expected_date, b.amount, b.currency, b.frequency, 'bill' AS basis, NULL::int
        AS occurrences
          FROM bills b, money_later_dates(b.first_due, b.frequency, b.due_date,
                                          shared.today() + :days_ahead::int) d(day)
         WHERE b.status = 'pending' AND d.day >= shared.today()
           AND NOT EXISTS (SELECT 1 FROM bills o WHERE o.payee_key = b.payee_key AND o.id <> b.id
                           AND abs(o.due_date - d.day) <= 3)
        UNION ALL
        SELECT r.merchant, r.next_expected, r.typical_amount, r.currency, r.frequency, 'history', r.occurrences
          FROM money_recurring(3) r
         WHERE r.direction = 'debit' AND r.active AND r.next_expected BETWEEN shared.today()
             AND shared.today() + :days_ahead::int
           AND NOT EXISTS (SELECT 1 FROM bills b WHERE b.status = 'pending' AND b.currency = r.currency
                              AND (b.payee_key = r.merchant_key OR b.transaction_id IN (
                                       SELECT l.id FROM ledger l WHERE l.merchant_key = r.merchant_key)))
           AND NOT EXISTS (SELECT 1 FROM subscriptions s
                            WHERE s.status <> 'cancelled' AND money_merchant_key(s.service) = r.merchant_key)) p
 WHERE money_filter(:currency::text, NULL) AND (:currency::text IS NULL OR p.currency = upper(:currency::text))
 ORDER BY p.expected_date, lower(p.payee), p.basis
 LIMIT :limit::int OFFSET :offset::int;
