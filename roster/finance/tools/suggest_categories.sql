/*---
description: >-
  Suggest a category for transactions: by the person's rule or what was learned for the merchant (mapping), else by
  what the same merchant mostly had (history). suggestion is null where neither knows: decide from the merchant and
  description, or ask. It changes nothing; update_transaction does.
examples:
  - Suggest categories for the uncategorized entries.
  - Which category would you suggest for this payment?
  - Where would you file the purchases that have no label yet?
  - A strange charge from SumUp came in, what kind might it be?
  - Help me sort the leftover unassigned bookings, propose something.
args:
  transaction_ids: {type: array, items: {type: string, format: uuid}, description: "From list_transactions. Leave it
    out for the newest that are uncategorized."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
WITH asked AS MATERIALIZED (
    SELECT l.* FROM money_transactions(:transaction_ids::uuid[]) l
     WHERE :transaction_ids::uuid[] IS NOT NULL OR l.category = 'uncategorized'
     ORDER BY l.posted_at DESC, l.id
     LIMIT :limit::int
), known AS (
    SELECT a.id, money_mapped_category(a.merchant_key) AS mapped,
           (SELECT mode() WITHIN GROUP (ORDER BY h.category) FROM ledger h
             WHERE h.merchant_key = a.merchant_key AND h.id <> a.id AND h.category <> 'uncategorized') AS usual
      FROM asked a
)
SELECT a.id, a.posted_at, a.merchant, a.description, a.amount, a.currency, a.category,
       coalesce(k.mapped, k.usual) AS suggestion,
       CASE WHEN k.mapped IS NOT NULL THEN 'mapping' WHEN k.usual IS NOT NULL THEN 'history' END AS basis
  FROM asked a
  JOIN known k ON k.id = a.id
 ORDER BY a.posted_at DESC, a.id;
