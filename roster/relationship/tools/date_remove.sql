/*---
description: >-
  Take away a day that is wrong or that nobody keeps. date_restore with the same id brings it back. A wrong day is
  corrected by date_remove and date_add.
examples:
  - Remove the wrong birthday date from Andrea.
  - Delete the anniversary date of Olaf and Sabine.
  - They divorced, so nobody keeps their wedding day any more.
  - Karl's name day is nonsense, he never celebrates that, erase it.
  - The birthday you stored for Mia belongs to her twin cousin, drop it.
args:
  date_id: {type: string, format: uuid, required: true, description: "The id that date_list, upcoming_dates or
    contact_get gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT d.id, d.contact_id, d.label, d.month, d.day, d.year, d.deleted_at
  FROM date_set_deleted(:date_id::uuid, true) d;
