/*---
description: >-
  The unpaid bills that are due from today on, soonest first. days_until is below zero and state overdue for those
  past their date. currency_total is the sum of all rows of that currency. For paid bills use list_bills, for what is
  not tracked yet but may come predict_bills.
examples:
  - Show the upcoming bills.
  - Which unpaid bills are due in the next two weeks?
  - What do I have to pay before the weekend?
  - Am I late with any payment, is something overdue?
  - How much must I keep ready for invoices until payday?
args:
  days_ahead: {type: integer, default: 14, minimum: 0, maximum: 730, description: "How many days ahead to look."}
  include_overdue: {type: boolean, default: false, description: "True lists those too whose date is past."}
  payee: {type: string, maxLength: 100, description: "Only bills of payees like this: any part of the name."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT b.id, b.payee, b.amount, b.currency, b.due_date, b.due_date - shared.today() AS days_until,
       CASE WHEN b.due_date < shared.today() THEN 'overdue' WHEN b.due_date = shared.today() THEN 'due today'
            ELSE 'upcoming' END AS state,
       b.frequency, b.autopay, b.predicted, b.payment_method, b.account_id,
       sum(b.amount) OVER (PARTITION BY b.currency) AS currency_total
  FROM bills b
 WHERE money_pattern('payee', :payee::text) IS DISTINCT FROM ''
   AND b.status = 'pending' AND b.due_date <= shared.today() + :days_ahead::int
   AND (b.due_date >= shared.today() OR :include_overdue::boolean)
   AND (:payee::text IS NULL OR b.payee ILIKE money_pattern('payee', :payee::text))
 ORDER BY b.due_date, lower(b.payee), b.id
 LIMIT :limit::int OFFSET :offset::int;
