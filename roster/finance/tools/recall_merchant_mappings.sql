/*---
description: >-
  Which category new transactions of a merchant get: rules of the person and what was learned. Use it to explain a
  category or to find a mapping to forget.
examples:
  - Recall the merchant mappings for supermarkets.
  - Which mappings put a merchant under travel?
  - Why does Uber always end up as transport?
  - What rules have you got for sorting new purchases?
  - Explain how you decide that Decathlon counts as leisure.
args:
  merchant_pattern: {type: string, maxLength: 100, description: "Any part of the merchant's name; * stands for any
    text."}
  category: {type: string, description: "Only mappings to this category."}
  forgotten: {type: boolean, default: false, description: "True lists the forgotten ones instead, for
    restore_merchant_mapping."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT m.id, m.merchant_key, m.category, m.source, m.transactions
  FROM merchant_mappings m
 WHERE money_pattern('merchant_pattern', :merchant_pattern::text) IS DISTINCT FROM ''
   AND (m.deleted_at IS NOT NULL) = :forgotten::boolean
   AND (:merchant_pattern::text IS NULL OR m.merchant_key LIKE money_pattern('merchant_pattern',
       :merchant_pattern::text))
   AND (:category::text IS NULL OR m.category = money_category(:category::text))
 ORDER BY m.source DESC, m.merchant_key
 LIMIT :limit::int OFFSET :offset::int;
