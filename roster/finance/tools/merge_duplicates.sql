/*---
description: >-
  Make one transaction of several that are the same purchase, for example one from a mail and one from the bank. The
  one kept takes over what it lacks (description, receipt, account); the others no longer count, and
  restore_transaction brings each back. detect_duplicates finds candidates; ask the person if it is not plain that
  they are one.
examples:
  - Merge these two duplicate entries.
  - Merge the duplicates from the restaurant, keep the bank one.
  - The mail receipt and the card booking are one dinner, combine them.
  - Both rows stand for the same train ticket, make one of them.
  - I bought only a single lamp, fold the twin into the original.
args:
  keep_id: {type: string, format: uuid, required: true, description: "The transaction to keep."}
  duplicate_ids: {type: array, required: true, items: {type: string, format: uuid}, description: "Those that are the
    same purchase, of the same amount, currency and direction."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.posted_at, t.merchant, t.amount, t.currency, t.direction, t.category, t.description, t.account_id,
       t.receipt_url, r.merged
  FROM transaction_merge(:keep_id::uuid, :duplicate_ids::uuid[]) r, LATERAL (SELECT (r.entry).*) t;
