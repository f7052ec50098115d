/*---
description: >-
  Take a document off the record, for example an old passport once the new one is noted. document_restore takes it back.
examples:
  - Remove the old passport document
  - Take the expired visa document off my record
  - My former identity card was shredded, you needn't keep it
  - The boarding pass from last year can be thrown away
  - I handed in my previous driving licence, clear it out
args:
  document_id: {type: string, format: uuid, required: true, description: "The id that document_list gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE documents d
   SET deleted_at = coalesce(d.deleted_at, shared.clock())
 WHERE d.id = :document_id::uuid AND (SELECT (document_of(:document_id::uuid)).id IS NOT NULL)
RETURNING d.id, d.trip_id, d.type, nullif(d.holder, '') AS holder, d.expiry_date, d.deleted_at;
