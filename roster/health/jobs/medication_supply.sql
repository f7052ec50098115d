/*---
description: >-
  Medications of which the counted stock runs out in 7, 3 or 1 days or today, each told once; and courses that end
  tomorrow or today.
notify:
  template: "{name} {dosage}: {what}"
  priority: medium
---*/
SELECT m.name, m.dosage, t.what
  FROM job_span('medication_supply', interval '1 day') s
  CROSS JOIN medications m
  LEFT JOIN LATERAL medication_stock(m.id) k ON true
  CROSS JOIN LATERAL (
        SELECT format(CASE WHEN k.runs_out_on < shared.today() THEN '%s left by the record, too little since %s.'
                           ELSE '%s left by the record, too little from %s on.' END, k.stock_left,
                      CASE k.runs_out_on - shared.today() WHEN 0 THEN 'today' WHEN 1 THEN 'tomorrow'
                           ELSE to_char(k.runs_out_on, 'FMDay, YYYY-MM-DD') END) AS what
         -- One of these days has come since the last run.
         WHERE EXISTS (SELECT FROM unnest(ARRAY[7, 3, 1, 0]) ahead
                        WHERE k.runs_out_on - ahead > s.since::date AND k.runs_out_on - ahead <= s.until::date)
        UNION ALL
        SELECT format('the course ends %s.', CASE m.end_date - shared.today() WHEN 0 THEN 'today' ELSE 'tomorrow' END)
         WHERE m.end_date - shared.today() IN (1, 0)) t
 WHERE m.active
 ORDER BY lower(m.name), t.what;
