/*---
description: >-
  Bring back a dismissed reminder. What it would have told in the meantime is not told any more; if its time is over, due
  is true and next_trigger_at null. reminder_list with include_dismissed set to true shows them.
examples:
  - Restore the reminder that I dismissed this morning.
  - Bring back the dismissed reminder on Olga's plants.
  - I silenced the Sunday nudge too early, turn it on again.
  - Resume pinging me about the cemetery as you did before.
  - Olga left again, so that alert I switched off should run anew.
args:
  reminder_id: {type: string, format: uuid, required: true, description: "The id of the dismissed reminder."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT s.* FROM reminder_keep(:reminder_id::uuid, false) p, reminder_shown(p) s;
