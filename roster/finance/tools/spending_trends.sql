/*---
description: >-
  Spending of each of the last months against the month before it or the same month a year before, newest first, for
  each currency. The running month (complete is false) is compared with the same days of the other month.
  change_percent is null where there is nothing to compare with. Transfers are left out, refunds not taken off.
examples:
  - Show spending trends over the last six months.
  - How does our spending compare with the same month last year?
  - Are we getting thriftier or more wasteful as time goes by?
  - Is food costing us more than it did in the previous month?
  - Heating seems to climb winter after winter, is that true?
args:
  comparison: {type: string, enum: [month_over_month, year_over_year], default: month_over_month, description: "With
    what each month is compared."}
  months: {type: integer, default: 6, minimum: 1, maximum: 60, description: "How many months, the running one
    included."}
  category: {type: string, description: "Only this category."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT t.month, t.currency, t.spent, t.compared_month, t.compared_spent, t.change, t.change_percent, t.complete
  FROM money_trends(:comparison::text, :months::int, :category::text, :currency::text) t
 WHERE money_filter(:currency::text, NULL);
