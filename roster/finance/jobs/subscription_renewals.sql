/*---
description: >-
  Subscriptions that renew by themselves: seven days and one day before. Weekly ones a day before only, daily ones
  never.
notify:
  head: "Subscriptions that renew by themselves:"
  template: "{service}: {amount} {currency} {how_often}, {due}"
  priority: medium
---*/
SELECT s.service, money_text(s.amount, s.currency) AS amount, s.currency,
       replace(s.frequency, 'biweekly', 'every two weeks') AS how_often,
       CASE s.days WHEN 1 THEN format('tomorrow, %s', s.renewal)
                   ELSE format('in %s days, on %s', s.days, s.renewal) END AS due
  FROM (SELECT x.*, money_renewal(x) AS renewal, money_renewal(x) - shared.today() AS days
          FROM subscriptions x
         WHERE x.status = 'active' AND x.auto_renew AND x.amount > 0 AND x.frequency <> 'daily') s
 WHERE s.days = 1 OR s.days = 7 AND s.frequency NOT IN ('weekly', 'biweekly')
 ORDER BY s.renewal, s.service_key;
