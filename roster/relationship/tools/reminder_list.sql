/*---
description: >-
  The reminders about a contact, or all: those that come next at the top. due is true for one that has come and was not
  dismissed yet; next_trigger_at is null if it does not come again. If as many rows come back as limit allows there may be
  more: ask again with offset.
examples:
  - List all my reminders.
  - Which reminders are there about Rebecca?
  - What are you going to alert me to this week?
  - Did I ask you to nudge me about the christening?
  - Which pings are still pending or came and were ignored?
args:
  contact_id: {type: string, format: uuid, description: "About whom. Leave it out for all, also those without a contact."}
  include_dismissed: {type: boolean, default: false, description: "True shows the dismissed ones as well, at the end."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT s.*
  FROM reminders r, reminder_shown(r) s
 WHERE asks_about(:contact_id::uuid)
   AND (:contact_id::uuid IS NULL OR r.contact_id = (SELECT contact_there('contact_id', :contact_id::uuid)))
   AND (r.dismissed_at IS NULL OR coalesce(:include_dismissed::boolean, false))
 ORDER BY s.dismissed, s.due DESC, s.next_trigger_at NULLS LAST, r.created_at, r.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
