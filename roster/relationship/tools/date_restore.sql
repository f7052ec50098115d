/*---
description: >-
  Bring back a removed day. date_list with deleted true lists them.
args:
  date_id: {type: string, format: uuid, required: true, description: "The id that date_list, upcoming_dates or
    contact_get gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT d.id, d.contact_id, d.label, d.month, d.day, d.year, d.deleted_at
  FROM date_set_deleted(:date_id::uuid, false) d;
