/*---
description: >-
  The subscriptions with their ids, price, next renewal (soonest first) and earlier prices. For what they cost in a
  year, and whether they are still charged, use subscription_audit.
examples:
  - List my active subscriptions.
  - Which subscriptions renew within the next thirty days?
  - What memberships and streaming services have we signed up for?
  - When does my antivirus licence run out?
  - Is the meal kit on pause at the moment or still running?
args:
  status: {type: string, enum: [active, paused, cancelled], description: "Only this state. Leave it out for all but
    the cancelled ones."}
  renews_within_days: {type: integer, minimum: 0, maximum: 730, description: "Only those that renew or end within so
    many days."}
  service: {type: string, maxLength: 100, description: "Any part of the service's name; * stands for any text."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT s.id, s.service, s.amount, s.currency, s.frequency, money_renewal(s) AS next_renewal,
       money_renewal(s) - shared.today() AS days_until, s.status, s.auto_renew, s.payment_method, s.account_id,
       s.prices, s.cancelled_at, s.cancel_reason, s.metadata
  FROM subscriptions s
 WHERE money_pattern('service', :service::text) IS DISTINCT FROM ''
   AND (s.status = :status::text OR :status::text IS NULL AND s.status <> 'cancelled')
   AND (:service::text IS NULL OR s.service ILIKE money_pattern('service', :service::text))
   AND (:renews_within_days::int IS NULL
        OR money_renewal(s) BETWEEN shared.today() AND shared.today() + :renews_within_days::int)
 ORDER BY money_renewal(s), s.service_key
 LIMIT :limit::int OFFSET :offset::int;
