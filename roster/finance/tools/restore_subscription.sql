/*---
description: >-
  Take the cancellation of a subscription back: it is active again, with its price and dates as they were.
  list_subscriptions with status cancelled lists them.
examples:
  - Restore the Audible subscription.
  - Undo the cancellation of my gym subscription.
  - I changed my mind about quitting the newspaper, keep it going.
  - They talked me into staying with Netflix, so it's active again.
  - I told you the cloud storage had ended, but it hasn't.
args:
  subscription_id: {type: string, format: uuid, required: true, description: "The id of the cancelled subscription."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.service, t.amount, t.currency, t.frequency, money_renewal(r.subscription) AS next_renewal, t.status,
       r.changed
  FROM subscription_end(:subscription_id::uuid, false, NULL) r, LATERAL (SELECT (r.subscription).*) t;
