/*---
description: >-
  Forget which category a merchant's new transactions get, because the mapping is wrong. Transactions on record stay
  as they are; bulk_recategorize changes those. restore_merchant_mapping takes it back.
examples:
  - Forget the merchant mapping for the corner kiosk.
  - Drop the wrong mapping that sends Tesco to dining.
  - Stop putting every new fuel receipt under groceries.
  - PayPal shouldn't automatically land in shopping any more.
  - You picked up nonsense about the flower shop being utilities, unlearn it.
args:
  mapping_id: {type: string, format: uuid, required: true, description: "From recall_merchant_mappings."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT m.id, m.merchant_key, m.category, m.source, m.deleted_at
  FROM merchant_mapping_set(:mapping_id::uuid, true) m;
