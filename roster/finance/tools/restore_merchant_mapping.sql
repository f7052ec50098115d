/*---
description: >-
  Bring back a mapping of a merchant to a category that was forgotten. recall_merchant_mappings with forgotten set to
  true lists them.
args:
  mapping_id: {type: string, format: uuid, required: true, description: "The id of the forgotten mapping."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT m.id, m.merchant_key, m.category, m.source, m.deleted_at
  FROM merchant_mapping_set(:mapping_id::uuid, false) m;
