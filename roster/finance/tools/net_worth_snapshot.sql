/*---
description: >-
  Write down what stands on an account on a day, for the course of the net worth. The same account and day again is
  corrected (previous_balance says what it was). It returns the stored row.
examples:
  - "Take a net worth snapshot: savings at ING, 12,000 euros."
  - Write down today's balance of my depot for the net worth.
  - My nest egg at Barclays stands at eight thousand three hundred.
  - We still owe 140,000 on the mortgage as of New Year's Eve.
  - After payday the current balance is 3,250, please keep that figure.
args:
  account: {type: string, required: true, maxLength: 120, description: "The account by name, the same each time. No
    account number; the last four digits at most."}
  institution: {type: string, required: true, maxLength: 120, description: "The bank or provider."}
  balance: {type: number, required: true, description: "What stands on it; below zero for what is owed, 0 for an
    account that is no more."}
  currency: {type: string, required: true, description: "ISO 4217, such as EUR."}
  as_of_date: {type: string, description: "The day on which it stood so, YYYY-MM-DD, not in the future. Left out:
    today."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.account, t.institution, t.balance, t.currency, t.as_of_date, r.already_recorded, r.previous_balance
  FROM balance_put(:account::text, :institution::text, :balance::numeric, :currency::text, :as_of_date::text) r,
       LATERAL (SELECT (r.snapshot).*) t;
