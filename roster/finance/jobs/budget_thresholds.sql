/*---
description: >-
  Budgets whose warning or alert threshold was crossed by what was recorded since 20:00 of the day before. Of both
  crossed at once only the alert is told. Meant to run once a day at 20:00 or later.
notify:
  head: "Budgets:"
  template: "{category}: {spent} of {amount} {currency} spent ({percent} %), {what} {first_day} to {last_day}"
  priority: medium
---*/
WITH window_ends AS (
    -- The last 20:00 that has passed, and the one a day before: each day's window begins where the last one ended.
    SELECT upto, upto - interval '1 day' AS since
      FROM (SELECT date_trunc('day', shared.clock() AT TIME ZONE current_setting('TimeZone') - interval '20 hours')
                   + interval '20 hours') w(upto)
), spans AS (
    SELECT DISTINCT b.id, b.category, b.amount, b.currency, b.warn_threshold, b.alert_threshold, p.first_day,
           p.last_day, w.since, w.upto
      FROM budgets b, window_ends w, LATERAL (VALUES (w.since::date), (w.upto::date)) d(day),
           LATERAL money_period(b.period, d.day) p
     WHERE b.deleted_at IS NULL
), sums AS (
    SELECT s.*, money_spent(s.category, s.currency, s.first_day, s.last_day, s.since::timestamptz) AS earlier,
           money_spent(s.category, s.currency, s.first_day, s.last_day, s.upto::timestamptz) AS spent
      FROM spans s
)
SELECT s.category, money_text(s.spent, s.currency) AS spent, money_text(s.amount, s.currency) AS amount, s.currency,
       round(s.spent * 100 / s.amount)::int AS percent,
       CASE WHEN s.spent > s.amount THEN 'more than planned' WHEN s.spent >= s.amount * s.alert_threshold THEN 'used up'
            ELSE 'getting close' END AS what,
       s.first_day, s.last_day
  FROM sums s
 WHERE s.earlier < s.amount * s.alert_threshold AND s.spent >= s.amount * s.alert_threshold
    OR s.earlier < s.amount * s.warn_threshold AND s.spent >= s.amount * s.warn_threshold
 ORDER BY s.spent / s.amount DESC, s.category, s.first_day;
