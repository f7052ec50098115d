/*---
description: >-
  Take a transaction out of the ledger that should not be there. It no longer counts anywhere; restore_transaction
  with the same id brings it back. For a wrong amount or category use update_transaction, for one recorded twice
  merge_duplicates.
examples:
  - Delete the transaction of 12 euros at Lidl.
  - Take that transaction out, it never happened.
  - The hotel refused my booking, so that charge must vanish from the ledger.
  - I logged a haircut I never had, throw the entry away.
  - That payment was my neighbour's, not ours; erase it from our books.
args:
  transaction_id: {type: string, format: uuid, required: true, description: "From list_transactions."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.posted_at, t.merchant, t.amount, t.currency, t.direction, t.category, t.deleted_at
  FROM transaction_delete(:transaction_id::uuid) t;
