/*---
description: >-
  Bring back a removed document. document_list with deleted set to true lists them.
examples:
  - Restore the removed passport document
  - Bring back the insurance document I removed
  - You took my vaccination card off the record, I still need it
  - The visa I had you discard is valid after all, reinstate it
  - Undo throwing out my identity card, I found it under the sofa
args:
  document_id: {type: string, format: uuid, required: true, description: "The id of the removed document."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE documents d
   SET deleted_at = NULL
 WHERE d.id = :document_id::uuid AND (SELECT (document_of(:document_id::uuid)).id IS NOT NULL)
   AND CASE WHEN d.deleted_at IS NOT NULL AND EXISTS (
                SELECT FROM documents o
                 WHERE o.deleted_at IS NULL AND o.type = d.type AND lower(o.holder) = lower(d.holder)
                   AND (o.trip_id, o.expiry_date, o.blob_ref)
                       IS NOT DISTINCT FROM (d.trip_id, d.expiry_date, d.blob_ref))
            THEN shared.refuse('The same document was noted anew. Nothing changed; document_list shows it.')
            ELSE true END
RETURNING d.id, d.trip_id, d.type, nullif(d.holder, '') AS holder, d.expiry_date, d.metadata;
