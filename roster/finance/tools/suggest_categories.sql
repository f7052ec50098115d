/*---
description: >-
  Suggest a category for transactions: by the person's rule or what was learned for the merchant (mapping), else by what the
  same merchant mostly had (history). suggestion is null where neither knows: decide from the merchant and description, or
  ask. It changes nothing; update_transaction does.
args:
  transaction_ids: {type: array, items: {type: string, format: uuid}, description: "From list_transactions. Leave it out for
    the newest that are uncategorized."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT s.id, s.posted_at, s.merchant, s.description, s.amount, s.currency, s.category,
       coalesce(s.mapped, s.usual) AS suggestion,
       CASE WHEN s.mapped IS NOT NULL THEN 'mapping' WHEN s.usual IS NOT NULL THEN 'history' END AS basis
  FROM (SELECT l.id, l.posted_at, l.merchant, l.description, l.amount, l.currency, l.category,
               money_mapped_category(l.merchant_key) AS mapped,
               (SELECT mode() WITHIN GROUP (ORDER BY h.category) FROM ledger h
                 WHERE h.merchant_key = l.merchant_key AND h.id <> l.id AND h.category <> 'uncategorized') AS usual
          FROM money_transactions(:transaction_ids::uuid[]) l
         WHERE :transaction_ids::uuid[] IS NOT NULL OR l.category = 'uncategorized') s
 ORDER BY s.posted_at DESC, s.id
 LIMIT :limit::int;
