/*---
description: >-
  Bring back a transaction that was deleted, merged into another or split. Of a split one the parts go (parts_removed)
  and the whole counts again. list_transactions with deleted set to true lists what can be restored.
examples:
  - Restore the transaction I deleted yesterday.
  - Bring the deleted transaction at the pharmacy back.
  - I erased the wrong taxi ride, put it into the ledger again.
  - Those two coffees really were separate, undo combining them.
  - Glue the supermarket receipt together again, dividing it was a mistake.
args:
  transaction_id: {type: string, format: uuid, required: true, description: "The id of the transaction."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.posted_at, t.merchant, t.amount, t.currency, t.direction, t.category, r.was, r.parts_removed
  FROM transaction_restore(:transaction_id::uuid) r, LATERAL (SELECT (r.entry).*) t;
