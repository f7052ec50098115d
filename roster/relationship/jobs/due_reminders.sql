/*---
description: >-
  Tells the reminders that came due since the last run, each time that one comes once.
notify: {template: "Reminder: {text}", priority: high}
---*/
SELECT concat_ws(' ', r.message, '(' || c.name || ')',
                 -- Told late, because nobody was there at its time.
                 CASE WHEN n.at < s.until - interval '1 hour'
                      THEN '(due ' || to_char(n.at, 'YYYY-MM-DD HH24:MI') || ')' END) AS text,
       r.id AS reminder_id, r.contact_id, n.at AS due_at
  FROM job_span('due_reminders', interval '5 minutes') s
       CROSS JOIN reminders r
       CROSS JOIN LATERAL reminder_next(r, greatest(s.since, r.created_at)) n(at)
       LEFT JOIN contacts c ON c.id = r.contact_id
 WHERE r.dismissed_at IS NULL AND c.archived_at IS NULL AND n.at <= s.until
   AND (r.type <> 'one_time' OR r.due_at > s.since)
 ORDER BY n.at, r.created_at, r.id;
