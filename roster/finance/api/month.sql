/*---
description: What was spent this month so far, in one currency, and what the month may come to.
method: get
path: month
args:
  currency: {type: string, default: "", description: "ISO 4217. Left empty: the one of most transactions."}
returns: row
card: {kind: number, title: Spent this month, value: spent, unit: {column: currency}, note: outlook}
---*/
WITH main AS (
    SELECT coalesce(nullif(upper(:currency::text), ''),
                    (SELECT l.currency FROM ledger l WHERE l.counts AND l.day > shared.today() - 366
                      GROUP BY l.currency ORDER BY count(*) DESC, l.currency LIMIT 1)) AS currency
)
SELECT f.spent_so_far AS spent, f.currency,
       CASE WHEN f.projected IS NOT NULL
            THEN 'about ' || money_text(f.projected, f.currency) || ' by the end of the month'
            ELSE 'no month before it to compare with' END AS outlook
  FROM main, money_forecast(main.currency) f
 WHERE f.currency = main.currency;
