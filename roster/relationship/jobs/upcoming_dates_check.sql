/*---
description: >-
  Birthdays and other days that come in exactly 14, 3 or 1 days or are today: each is told on those days and on no other.
notify:
  template: "{when}: {name}, {label}{turning}"
  priority: medium
---*/
SELECT CASE d.days_until WHEN 0 THEN 'Today' WHEN 1 THEN 'Tomorrow' ELSE 'In ' || d.days_until || ' days' END
           || ' (' || d.date || ')' AS when,
       d.name, d.label, coalesce(' (' || d.turns || ')', '') AS turning, d.days_until, d.date, d.contact_id
  FROM dates_ahead(14) d
 WHERE d.days_until IN (0, 1, 3, 14)
 ORDER BY d.date, d.name, d.label, d.date_id;
