/*---
description: >-
  Unpaid bills seven days and one day before their date, on the day, and once they are overdue: the day after, then
  weekly. Those that are debited by themselves are told the day before only.
notify:
  head: "Bills:"
  template: "{payee}: {amount} {currency}{expected}, {due}"
  priority: medium
---*/
SELECT b.payee, money_text(b.amount, b.currency) AS amount, b.currency,
       CASE WHEN b.predicted THEN ' (expected)' ELSE '' END AS expected,
       CASE WHEN b.autopay THEN format('will be debited tomorrow, %s', b.due_date)
            WHEN days > 1 THEN format('due in %s days, on %s', days, b.due_date)
            WHEN days = 1 THEN format('due tomorrow, %s', b.due_date)
            WHEN days = 0 THEN format('due today, %s', b.due_date)
            WHEN days = -1 THEN format('overdue since yesterday, %s', b.due_date)
            ELSE format('overdue for %s days, since %s', -days, b.due_date) END AS due
  FROM bills b, LATERAL (SELECT b.due_date - shared.today() AS days) d
 WHERE b.status = 'pending'
   AND CASE WHEN b.autopay THEN days = 1 ELSE days IN (7, 1, 0) OR days < 0 AND (-days) % 7 = 1 END
 ORDER BY b.due_date, lower(b.payee), b.id;
