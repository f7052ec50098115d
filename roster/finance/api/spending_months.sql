/*---
description: >-
  Spending and income by month, in one currency, the oldest month first. Transfers between own accounts are left out.
method: get
path: spending/months
args:
  months: {type: integer, default: 12, minimum: 1, maximum: 60,
    description: "How many months, the running one included."}
  currency: {type: string, default: "", description: "ISO 4217. Left empty: the one of most transactions."}
returns: rows
card: {kind: bar, title: By month, x: month, y: [spent, received], unit: {column: currency}}
---*/
WITH main AS (
    SELECT coalesce(nullif(upper(:currency::text), ''),
                    (SELECT l.currency FROM ledger l WHERE l.counts AND l.day > shared.today() - 366
                      GROUP BY l.currency ORDER BY count(*) DESC, l.currency LIMIT 1)) AS currency
)
SELECT to_char(f.first_day, 'YYYY-MM') AS month, f.spending AS spent, f.income AS received, f.currency
  FROM main, money_flow('monthly', :months::int, false, main.currency) f
 WHERE f.currency = main.currency
 ORDER BY f.first_day;
