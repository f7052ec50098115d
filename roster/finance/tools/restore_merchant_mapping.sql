/*---
description: >-
  Bring back a mapping of a merchant to a category that was forgotten. recall_merchant_mappings with forgotten set to
  true lists them.
examples:
  - Restore the merchant mapping for Aldi that was forgotten.
  - Bring back the forgotten mapping of Netflix to entertainment.
  - Your old rule for the bakery was right after all, use it again.
  - Go back to filing the petrol station automatically as before.
  - I shouldn't have made you unlearn where Ikea goes.
args:
  mapping_id: {type: string, format: uuid, required: true, description: "The id of the forgotten mapping."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT m.id, m.merchant_key, m.category, m.source, m.deleted_at
  FROM merchant_mapping_set(:mapping_id::uuid, false) m;
