/*---
description: >-
  Compare the unpaid bills with the ledger. A bill that exactly one transaction fits (payee, currency and amount,
  about the due date) is marked as paid and linked; where the amount differs or several fit it comes back as doubtful,
  to be settled with mark_bill_paid after asking the person.
examples:
  - Reconcile the open bills with the ledger.
  - Check which unpaid bills the bank transactions already cover.
  - Compare outstanding invoices against the bank bookings and tick off matches.
  - I've no idea what I've settled, work it out from the statements.
  - Go through everything we owed and see whether the money left already.
args:
  lookback_days: {type: integer, default: 90, minimum: 1, maximum: 730, description: "How many days back to look at
    transactions."}
  payee: {type: string, maxLength: 100, description: "Only bills of payees like this: any part of the name."}
  dry_run: {type: boolean, default: false, description: "True changes nothing and only tells what would be marked."}
returns: value
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
SELECT bill_reconcile(:lookback_days::int, :payee::text, :dry_run::boolean) AS result;
