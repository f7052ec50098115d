/*---
description: >-
  Bills of any state, latest due date first: to see when something was paid, how an amount developed, or to find the
  id of a bill to correct. For what is due next use upcoming_bills.
examples:
  - List all bills from last year.
  - Show me the paid bills of the electric company.
  - When did we settle the plumber's invoice?
  - How has what the waterworks demand developed over the years?
  - Did I ever pay the dentist for the crown in February?
args:
  payee: {type: string, maxLength: 100, description: "Any part of the payee's name; * stands for any text."}
  status: {type: string, enum: [pending, overdue, paid, cancelled], description: "Only this state. overdue is pending
    and past its date."}
  start_date: {type: string, description: "First due date, YYYY-MM-DD. Leave it out for no lower end."}
  end_date: {type: string, description: "Last due date, YYYY-MM-DD. Leave it out for no upper end."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT b.id, b.payee, b.amount, b.currency, b.due_date,
       CASE WHEN b.status = 'pending' AND b.due_date < shared.today() THEN 'overdue' ELSE b.status END AS status,
       b.frequency, b.autopay, b.predicted, b.payment_method, b.account_id, b.statement_period_start,
       b.statement_period_end, b.paid_at, b.paid_amount, b.transaction_id, b.metadata
  FROM bills b
 WHERE money_span(:start_date::text, :end_date::text) AND money_pattern('payee', :payee::text) IS DISTINCT FROM ''
   AND (:payee::text IS NULL OR b.payee ILIKE money_pattern('payee', :payee::text))
   AND (:status::text IS NULL OR b.status = :status::text
        OR :status::text = 'overdue' AND b.status = 'pending' AND b.due_date < shared.today())
   AND b.due_date >= coalesce(shared.day('start_date', :start_date::text), '-infinity')
   AND b.due_date <= coalesce(shared.day('end_date', :end_date::text), 'infinity')
 ORDER BY b.due_date DESC, lower(b.payee), b.id
 LIMIT :limit::int OFFSET :offset::int;
