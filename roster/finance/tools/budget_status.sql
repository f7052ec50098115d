/*---
description: >-
  How each budget stands in its running period: spent (refunds of the category taken off), remaining (below zero if it
  is exceeded), percent, state (ok, warn, over) and days_left, the fullest first. Transfers never count.
examples:
  - How do our budgets stand right now?
  - What's the status of the entertainment budget?
  - Can I still afford sushi tonight, or is the dining allowance exhausted?
  - How much is left for shoes until the thirty-first?
  - Did we overshoot what we'd planned for petrol this month?
args:
  category: {type: string, description: "Only the budgets of this category."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT s.category, s.period, s.first_day, s.last_day, s.amount, s.currency, s.spent, s.amount - s.spent AS remaining,
       round(s.spent * 100 / s.amount, 1) AS percent,
       CASE WHEN s.spent >= s.amount * s.alert_threshold THEN 'over'
            WHEN s.spent >= s.amount * s.warn_threshold THEN 'warn' ELSE 'ok' END AS state,
       s.last_day - shared.today() AS days_left
  FROM (SELECT b.*, p.first_day, p.last_day,
               money_spent(b.category, b.currency, p.first_day, p.last_day, 'infinity') AS spent
          FROM budgets b, LATERAL money_period(b.period, shared.today()) p
         WHERE b.deleted_at IS NULL) s
 WHERE money_filter(:currency::text, NULL)
   AND (:category::text IS NULL OR s.category = money_category(:category::text))
   AND (:currency::text IS NULL OR s.currency = upper(:currency::text))
 ORDER BY s.spent / s.amount DESC, s.category, s.period, s.currency
 LIMIT :limit::int OFFSET :offset::int;
