/*---
description: >-
  What was spent this month by category, in one currency, the most first. Transfers between own accounts are left out.
method: get
path: spending
args:
  currency: {type: string, default: "", description: "ISO 4217. Left empty: the one of most transactions."}
returns: rows
card: {kind: bar, title: Spending by category, x: category, y: spent, unit: {column: currency}}
---*/
WITH main AS (
    SELECT coalesce(nullif(upper(:currency::text), ''),
                    (SELECT l.currency FROM ledger l WHERE l.counts AND l.day > shared.today() - 366
                      GROUP BY l.currency ORDER BY count(*) DESC, l.currency LIMIT 1)) AS currency
)
SELECT l.category, sum(l.amount) AS spent, l.currency
  FROM ledger l JOIN main ON l.currency = main.currency
 WHERE l.counts AND l.direction = 'debit'
   AND l.day BETWEEN date_trunc('month', shared.today()::timestamp)::date AND shared.today()
 GROUP BY l.category, l.currency
 ORDER BY 2 DESC, 1;
