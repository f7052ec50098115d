/*---
description: >-
  Put a reminder away, because it is done with or not wanted any more: it does not come again, and of a recurring one no
  time that would still come. reminder_restore with the same id brings it back.
examples:
  - Dismiss the reminder about Gisela.
  - Put away the weekly reminder to ring my parents.
  - Stop nagging me about the plants, Olga is home again.
  - I already wished Pablo luck, you need not alert me any more.
  - Switch off the monthly ping on visiting the cemetery.
args:
  reminder_id: {type: string, format: uuid, required: true, description: "The id that reminder_create or reminder_list
    gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT s.* FROM reminder_keep(:reminder_id::uuid, true) p, reminder_shown(p) s;
