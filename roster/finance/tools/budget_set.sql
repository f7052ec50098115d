/*---
description: >-
  Set how much may be spent on a category in each week, month, quarter or year. The same category, period and currency
  again changes it (previous_amount says what it was). From its thresholds on the owner is told by itself. It stops no
  payment.
examples:
  - Set a monthly grocery budget of 400 euros.
  - Raise the transport budget to 150 dollars per month.
  - We shouldn't blow more than ninety a week on takeaways.
  - From now on allow the kids' toys fifty pounds each quarter.
  - Warn me once furniture shopping passes two thousand this year.
args:
  category: {type: string, required: true, maxLength: 60, description: 'The category, as transactions have it, or
    "all" for all spending.'}
  amount: {type: number, required: true, description: "How much for each period, above zero."}
  period: {type: string, enum: [weekly, monthly, quarterly, yearly], required: true, description: "Calendar weeks
    begin on Monday."}
  currency: {type: string, required: true, description: "ISO 4217, such as EUR. Only spending of this currency
    counts."}
  warn_threshold: {type: number, description: "From which share on it is worth a hint. Left out: 0.8, that is 80
    percent."}
  alert_threshold: {type: number, description: "From which share on it is an alert. Left out: 1.0."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.category, t.period, t.amount, t.currency, t.warn_threshold, t.alert_threshold, r.already_set,
       r.previous_amount
  FROM budget_put(:category::text, :amount::numeric, :period::text, :currency::text, :warn_threshold::numeric,
                  :alert_threshold::numeric) r,
       LATERAL (SELECT (r.budget).*) t;
