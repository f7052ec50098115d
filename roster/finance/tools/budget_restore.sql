/*---
description: >-
  Bring back a budget that was removed, with its amount and thresholds. budget_list with removed set to true lists
  them.
examples:
  - Restore the travel budget I removed.
  - Bring the grocery budget back with its old thresholds.
  - Scrapping the coffee limit was hasty, I want it again.
  - Reinstate the clothing cap we threw out last spring.
  - Without that ceiling I overspend on games, so undo its abolition.
args:
  category: {type: string, required: true, description: "The category of the budget."}
  period: {type: string, enum: [weekly, monthly, quarterly, yearly], required: true, description: "Its period."}
  currency: {type: string, description: "Its currency; needed only if the category has budgets in several."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.category, t.period, t.amount, t.currency, t.warn_threshold, t.alert_threshold, r.changed
  FROM budget_end(:category::text, :period::text, :currency::text, false) r, LATERAL (SELECT (r.budget).*) t;
