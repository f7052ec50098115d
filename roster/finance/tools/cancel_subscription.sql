/*---
description: >-
  Note that the person has cancelled a subscription: no more reminders, no part of the audit. It does not cancel
  anything at the provider; the person must do that, so ask if it is done. changed is false if it was cancelled
  already. restore_subscription takes it back.
examples:
  - Cancel my Spotify subscription, I already told them.
  - Mark the newspaper subscription as cancelled.
  - I have quit the gym, so no more reminders about that membership.
  - Disney is finished for us, the children have outgrown cartoons.
  - I gave notice for the fishing magazine, its articles got boring.
args:
  subscription_id: {type: string, format: uuid, required: true, description: "From list_subscriptions."}
  reason: {type: string, maxLength: 500, description: "Why, in the person's words."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.service, t.amount, t.currency, t.frequency, t.status, t.cancelled_at, t.cancel_reason, r.changed
  FROM subscription_end(:subscription_id::uuid, true, :reason::text) r, LATERAL (SELECT (r.subscription).*) t;
