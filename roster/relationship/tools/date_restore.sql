/*---
description: >-
  Bring back a removed day. date_list with deleted true lists them.
examples:
  - Restore the birthday date of Dominik.
  - Bring back the anniversary date that I removed for my parents.
  - Mia was born that day after all, put her birthday back in.
  - I erased grandma's memorial day by mistake, undo it.
  - The couple reconciled, so their deleted wedding anniversary counts again.
args:
  date_id: {type: string, format: uuid, required: true, description: "The id that date_list, upcoming_dates or
    contact_get gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT d.id, d.contact_id, d.label, d.month, d.day, d.year, d.deleted_at
  FROM date_set_deleted(:date_id::uuid, false) d;
