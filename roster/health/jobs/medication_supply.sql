/*---
description: >-
  Medications of which the counted stock runs out in 7, 3 or 1 days or today, and courses that end tomorrow or today.
notify:
  template: "{name} {dosage}: {what}"
  priority: medium
---*/
SELECT m.name, m.dosage, t.what
  FROM medications m
  LEFT JOIN LATERAL medication_stock(m.id) s ON true
  CROSS JOIN LATERAL (
        SELECT format('%s left by the record, too little from %s on.', s.stock_left,
                      CASE s.runs_out_on - shared.today() WHEN 0 THEN 'today' WHEN 1 THEN 'tomorrow'
                           ELSE to_char(s.runs_out_on, 'FMDay, YYYY-MM-DD') END) AS what
         WHERE s.runs_out_on - shared.today() IN (7, 3, 1, 0)
        UNION ALL
        SELECT format('the course ends %s.', CASE m.end_date - shared.today() WHEN 0 THEN 'today' ELSE 'tomorrow' END)
         WHERE m.end_date - shared.today() IN (1, 0)) t
 WHERE m.active
 ORDER BY lower(m.name), t.what;
