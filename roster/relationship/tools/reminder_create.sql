/*---
description: >-
  Remind the owner of something about a contact, or without one, once or again and again. It comes by itself, at most five
  minutes after its time, as a message. For a birthday or an anniversary take date_add, which is told ahead of the day;
  for what has no fixed time take task_create. already_there is true if the same reminder was there, which is then kept
  once. next_trigger_at is when it comes next.
examples:
  - Create a reminder to call Gisela on Friday at six.
  - Set a reminder every month to water Olga's plants.
  - Tell me tomorrow at nine to wish Pablo luck for his interview.
  - Every Sunday evening nudge me to ring my parents.
  - Ping me at noon so I do not forget picking up Finn from daycare.
args:
  contact_id: {type: string, format: uuid, description: "About whom; from contact_search or contact_resolve."}
  message: {type: string, description: "What to be reminded of, understandable on its own."}
  due_at: {type: string, description: "When it comes the first time, RFC 3339 with the offset."}
  type: {type: string, enum: [one_time, recurring, recurring_daily, recurring_weekly, recurring_monthly,
    recurring_yearly], description: "How often, counted from due_at; recurring goes by cron. Left out: once, or by cron if
    that is given."}
  cron: {type: string, description: "For other rhythms: minute, hour, day of the month, month, weekday, such as 0 18 * *
    5 for each Friday at six."}
  timezone: {type: string, description: "The zone in which hours are meant, such as Europe/Vienna. Left out: the owner's."}
  until_at: {type: string, description: "It does not come after this day or moment."}
  label: {type: string, description: "A short name of it."}
  calendar_event_id: {type: string, description: "The calendar event that it belongs to, if there is one."}
  reminder_type: {type: string, enum: [one_time, recurring, recurring_daily, recurring_weekly, recurring_monthly,
    recurring_yearly], description: "Another name of type; give one of the two."}
  next_trigger_at: {type: string, description: "Another name of due_at; give one of the two."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT s.*, p.already AS already_there
  FROM reminder_put(:contact_id::uuid, :message::text, :reminder_type::text, :cron::text, :due_at::text, :label::text,
                    :type::text, :next_trigger_at::text, :timezone::text, :until_at::text, :calendar_event_id::text) p,
       reminder_shown(p.r) s;
