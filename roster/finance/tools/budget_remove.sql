/*---
description: >-
  Remove the budget of a category. Transactions stay as they are; budget_restore brings the budget back. changed is
  false if it was removed already.
examples:
  - Remove the dining budget.
  - Delete our monthly budget for pets, please.
  - The dog died, so the limit for vet costs can go.
  - We no longer want any cap on restaurant visits.
  - Stop nagging me about that hobby allowance; scrap it for good.
args:
  category: {type: string, required: true, description: "The category of the budget, from budget_list."}
  period: {type: string, enum: [weekly, monthly, quarterly, yearly], required: true, description: "Its period."}
  currency: {type: string, description: "Its currency; needed only if the category has budgets in several."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.category, t.period, t.amount, t.currency, t.deleted_at AS removed_at, r.changed
  FROM budget_end(:category::text, :period::text, :currency::text, true) r, LATERAL (SELECT (r.budget).*) t;
