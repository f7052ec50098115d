/*---
description: >-
  Learn from the ledger which category each merchant belongs to: those with at least two categorised transactions, of
  which four in five agree. Rules of the person stay as they are, and what was forgotten stays forgotten. It returns
  the mappings that are new or changed; none if there was nothing to learn.
examples:
  - Learn the merchant categories from the ledger.
  - Work out which category each merchant belongs to from past entries.
  - I sorted loads of payments by hand, so pick up my habits.
  - Study how I labelled the drugstores and do likewise henceforth.
  - Teach yourself from my old bookings where each shop usually goes.
args:
  merchant_pattern: {type: string, maxLength: 100, description: "Learn only merchants like this: any part of the name.
    Leave it out for all."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
SELECT m.id, m.merchant_key, m.category, m.transactions
  FROM merchant_learn(money_pattern('merchant_pattern', :merchant_pattern::text)) m
 ORDER BY m.transactions DESC, m.merchant_key;
