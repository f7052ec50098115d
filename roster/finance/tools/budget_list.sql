/*---
description: >-
  The budgets that are set. For how much of each is spent use budget_status.
examples:
  - List all the budgets we have.
  - Which budgets are currently set up, weekly and yearly?
  - What ceilings did my husband and I agree on for eating out?
  - Remind me of the limits we put in place last January.
  - I forgot how much we allow ourselves for clothes each quarter.
args:
  currency: {type: string, description: "Only this currency, ISO 4217."}
  removed: {type: boolean, default: false, description: "True lists the removed ones instead, for budget_restore."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT b.id, b.category, b.period, b.amount, b.currency, b.warn_threshold, b.alert_threshold, b.deleted_at AS removed_at
  FROM budgets b
 WHERE money_filter(:currency::text, NULL) AND (b.deleted_at IS NOT NULL) = :removed::boolean
   AND (:currency::text IS NULL OR b.currency = upper(:currency::text))
 ORDER BY b.category, b.period, b.currency
 LIMIT :limit::int OFFSET :offset::int;
