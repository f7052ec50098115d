/*---
description: >-
  What tomorrow brings: open items that are due today or tomorrow, and overdue ones that became so, or were changed, since
  the last run; what begins in the calendar tomorrow, without what other butlers tell by themselves; and a journey that
  goes on.
prompt: >-
  Run the eod-tomorrow-prep workflow for tomorrow, as the skill of that name says. What was found comes with this prompt. If
  nothing of it is worth a message, send nothing.
---*/
SELECT x.kind, x.day, x.what
  FROM (SELECT 1 AS part, 'item' AS kind, d.due AS day,
               c.name || ': ' || left(coalesce(i.data ->> 'title', i.data ->> 'name', i.data ->> 'text',
                                               (i.data - 'due' - 'done')::text), 120) AS what
          FROM job_span('eod_tomorrow_prep', interval '1 day') s
         CROSS JOIN items i
          JOIN collections c ON c.id = i.collection_id AND c.deleted_at IS NULL
         CROSS JOIN LATERAL (SELECT item_due(i.data) AS due) d
         WHERE i.deleted_at IS NULL AND NOT i.data @> '{"done": true}' AND d.due <= shared.today() + 1
           -- An overdue one is news on the first day, and after a change.
           AND (d.due >= least(shared.today(), s.since::date) OR coalesce(i.updated_at, i.created_at) > s.since)
        UNION ALL
        SELECT 2, 'event', shared.today() + 1, left(i.shown ->> 'title', 120)
          FROM shared.calendar_instances i
         -- As values, which the server compares before it looks at labels: no event of another day lowers this one's.
         -- Whole days are days of UTC there.
         WHERE i.starts_at >= CASE WHEN i.days THEN (SELECT (shared.today() + 1)::timestamp AT TIME ZONE 'UTC')
                                   ELSE (SELECT (shared.today() + 1)::timestamptz) END
           AND i.starts_at < CASE WHEN i.days THEN (SELECT (shared.today() + 2)::timestamp AT TIME ZONE 'UTC')
                                  ELSE (SELECT (shared.today() + 2)::timestamptz) END
           AND i.shown ->> 'status' IS DISTINCT FROM 'cancelled'
           AND i.shown ->> 'your_response' IS DISTINCT FROM 'declined'
           -- Bills, birthdays and check-ins. An event for itself, for the same reason.
           AND CASE (SELECT e.created_by FROM shared.calendar_events e WHERE e.id = i.event)
               WHEN 'finance' THEN false WHEN 'relationship' THEN false
               WHEN 'travel' THEN coalesce(i.shown ->> 'title', '') NOT ILIKE 'check-in%' ELSE true END
        UNION ALL
        SELECT 3, 'signal', shared.today() + 1, left(concat_ws(': ', n.signal_type, n.value), 120)
          FROM context_signals n
         WHERE n.signal_type = 'travelling' AND n.ended_at IS NULL
           AND n.expires_at > (shared.today() + 1)::timestamptz
       ) x
 ORDER BY x.part, x.day, x.what
 LIMIT 40;
