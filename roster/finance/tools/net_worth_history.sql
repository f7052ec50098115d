/*---
description: >-
  What all accounts came to, today and at the end of each of the last months, newest first, for each currency; of each
  account the last balance known by that day (accounts, with the day it is from). It knows only accounts of which
  balances were written down with net_worth_snapshot: name old as_of_dates when you tell it.
examples:
  - Show our net worth history for the past year.
  - How did our net worth develop since 2020?
  - Are we richer than twelve months ago, all things together?
  - How much do we own in total across savings, shares and debts?
  - Is our fortune growing, month after month, mortgage considered?
args:
  months: {type: integer, default: 12, minimum: 1, maximum: 120, description: "How many ends of months back."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT w.as_of, w.currency, w.net_worth, w.assets, w.debts, w.change, w.accounts
  FROM money_net_worth(:months::int, :currency::text) w
 WHERE money_filter(:currency::text, NULL);
