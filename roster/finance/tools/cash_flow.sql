/*---
description: >-
  Income, spending and what is left (net) by week, month or quarter, newest first, for each currency. The running
  period has complete false. Transfers between own accounts are left out. With breakdown also by category.
examples:
  - Show the cash flow for the last quarter.
  - What is our weekly cash flow, income against spending?
  - Do we earn more than we burn through every month?
  - What remains of our wages after rent, food and everything?
  - Did we live beyond our means last autumn, salaries versus costs?
args:
  period: {type: string, enum: [weekly, monthly, quarterly], default: monthly, description: "How long a period is."}
  months: {type: integer, default: 6, minimum: 1, maximum: 60, description: "How many months back; of weeks and
    quarters as many as they hold."}
  breakdown: {type: boolean, default: false, description: "True adds the sums by category."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT f.first_day, f.last_day, f.currency, f.income, f.spending, f.net, f.complete, f.income_by_category,
       f.spending_by_category
  FROM money_flow(:period::text, CASE :period::text WHEN 'weekly' THEN ceil(:months::int * 4.35)::int
                                                    WHEN 'quarterly' THEN ceil(:months::int / 3.0)::int
                                                    ELSE :months::int END,
                  :breakdown::boolean, :currency::text) f
 WHERE money_filter(:currency::text, NULL);
