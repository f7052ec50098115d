/*---
description: The reminders that are still to come, soonest first.
method: get
path: reminders
returns: rows
card: {kind: timeline, title: Reminders, at: at, label: what}
---*/
SELECT s.next_trigger_at AS at, concat_ws(' ', s.message, '(' || s.contact_name || ')') AS what, s.type, s.id
  FROM reminders r CROSS JOIN LATERAL reminder_shown(r) s
 WHERE r.dismissed_at IS NULL AND s.next_trigger_at IS NOT NULL
 ORDER BY s.next_trigger_at, s.id;
