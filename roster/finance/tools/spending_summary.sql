/*---
description: >-
  How much was spent and received in a span of days: totals for each currency, and the same by group, the largest
  first. Currencies are never added up. Transfers between own accounts are left out (ask for category_filter transfer
  to see them), and refunds stand under received. Use it for "what did we spend on …"; the entries behind a sum are in
  list_transactions.
examples:
  - Give me a spending summary for March.
  - Sum up how much we spent on groceries this week.
  - What did the Italy trip devour in total last August?
  - How much money went to restaurants since New Year?
  - Break down where last month's salary disappeared to, shop by shop.
args:
  start_date: {type: string, description: "First day, YYYY-MM-DD. Left out: the first of the month of end_date."}
  end_date: {type: string, description: "Last day, which counts whole. Left out: today."}
  group_by: {type: string, enum: [category, merchant, month, week, account, payment_method], default: category,
    description: "By what to group."}
  category_filter: {type: string, description: "Only this category."}
  account_id: {type: string, format: uuid, description: "Only this account, from list_accounts."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
returns: value
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT money_summary(:start_date::text, :end_date::text, :group_by::text, :category_filter::text, :account_id::uuid,
                     :currency::text) AS result;
