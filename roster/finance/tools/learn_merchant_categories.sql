/*---
description: >-
  Learn from the ledger which category each merchant belongs to: those with at least two categorised transactions, of
  which four in five agree. Rules of the person stay as they are, and what was forgotten stays forgotten. It returns
  the mappings that are new or changed; none if there was nothing to learn.
args:
  merchant_pattern: {type: string, maxLength: 100, description: "Learn only merchants like this: any part of the name.
    Leave it out for all."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
SELECT m.id, m.merchant_key, m.category, m.transactions
  FROM merchant_learn(money_pattern('merchant_pattern', :merchant_pattern::text)) m
 ORDER BY m.transactions DESC, m.merchant_key;
