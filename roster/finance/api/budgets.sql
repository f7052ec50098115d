/*---
description: >-
  The budgets of the running periods: what was set, what was spent, and how many days are left.
method: get
path: budgets
returns: rows
card: {kind: table, title: Budgets, columns: [category, period, spent, budget, currency, days_left]}
---*/
SELECT s.category, s.period, s.spent, s.amount AS budget, s.currency, s.last_day - shared.today() AS days_left
  FROM (SELECT b.*, p.last_day, money_spent(b.category, b.currency, p.first_day, p.last_day, 'infinity') AS spent
          FROM budgets b, LATERAL money_period(b.period, shared.today()) p
         WHERE b.deleted_at IS NULL) s
 ORDER BY s.spent / s.amount DESC, s.category, s.period, s.currency;
