/*---
description: The unpaid bills of the next days, and those past their date, soonest first.
method: get
path: bills
args:
  days: {type: integer, default: 30, minimum: 0, maximum: 730, description: "How many days ahead."}
returns: rows
card: {kind: table, title: Bills ahead, columns: [payee, amount, currency, due_date, state]}
---*/
SELECT b.id, b.payee, b.amount, b.currency, b.due_date,
       CASE WHEN b.due_date < shared.today() THEN 'overdue' WHEN b.due_date = shared.today() THEN 'due today'
            ELSE 'upcoming' END AS state,
       b.frequency, b.autopay, b.predicted
  FROM bills b
 WHERE b.status = 'pending' AND b.due_date <= shared.today() + :days::int
 ORDER BY b.due_date, lower(b.payee), b.id;
