/*---
description: >-
  Bring back a dismissed reminder. What it would have told in the meantime is not told any more; if its time is over, due
  is true and next_trigger_at null. reminder_list with include_dismissed set to true shows them.
args:
  reminder_id: {type: string, format: uuid, required: true, description: "The id of the dismissed reminder."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT s.* FROM reminder_keep(:reminder_id::uuid, false) p, reminder_shown(p) s;
