/*---
description: >-
  Track a subscription: what it costs, how often, and when it renews. Use it when the person or a mail tells of one,
  and when its price or date changed: the same service again corrects the one there (already_tracked is true,
  previous_amount says an earlier price, which is kept). When it ends use cancel_subscription. It cancels and buys
  nothing.
examples:
  - Track my Netflix subscription, 13 euros monthly.
  - Add a subscription to the Guardian, 120 pounds a year.
  - I signed up for online yoga, nineteen a month, renewing on the 3rd.
  - Spotify now costs 12.99 instead of 10.99, from May.
  - I started a free trial of a language app that ends Sunday.
args:
  service: {type: string, required: true, maxLength: 200, description: "The service, by name. Two subscriptions of one
    service need two names."}
  amount: {type: number, required: true, description: "The price of one period; 0 for a free one."}
  currency: {type: string, required: true, description: "ISO 4217, such as EUR."}
  frequency: {type: string, enum: [daily, weekly, biweekly, monthly, quarterly, semiannual, yearly], required: true,
    description: "How often it is charged."}
  next_renewal: {type: string, required: true, description: "The day it renews, or ends if auto_renew is false,
    YYYY-MM-DD. Later ones are worked out from it."}
  status: {type: string, enum: [active, paused, cancelled], description: "Left out: active for a new one, unchanged
    for one that is known."}
  auto_renew: {type: boolean, description: "False if it ends on next_renewal unless somebody renews it. Left out:
    true."}
  payment_method: {type: string, maxLength: 100, description: "How it is paid. No card numbers."}
  account_id: {type: string, format: uuid, description: "From which account, from list_accounts."}
  source_message_id: {type: string, maxLength: 500, description: "The message that it was read from."}
  metadata: {type: object, description: "Anything else worth keeping, such as the period of notice."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.service, t.amount, t.currency, t.frequency, money_renewal(r.subscription) AS next_renewal, t.status,
       t.auto_renew, t.account_id, r.already_tracked, r.previous_amount
  FROM subscription_track(jsonb_strip_nulls(jsonb_build_object(
           'service', :service::text, 'amount', :amount::numeric, 'currency', :currency::text,
           'frequency', :frequency::text, 'next_renewal', :next_renewal::text, 'status', :status::text,
           'auto_renew', :auto_renew::boolean, 'payment_method', :payment_method::text, 'account_id', :account_id::text,
           'source_message_id', :source_message_id::text, 'metadata', :metadata::jsonb))) r,
       LATERAL (SELECT (r.subscription).*) t;
