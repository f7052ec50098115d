/*---
description: Transactions, newest first.
method: get
path: transactions
args:
  category: {type: string, description: "Only this category."}
  limit: {type: integer, default: 100, minimum: 1, maximum: 1000, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
---*/
SELECT l.id, l.day, l.merchant, l.amount, l.currency, l.direction, l.category, l.description, l.tags
  FROM ledger l
 WHERE (:category::text IS NULL OR l.category = money_category(:category::text))
 ORDER BY l.posted_at DESC, l.id
 LIMIT :limit::int OFFSET :offset::int;
