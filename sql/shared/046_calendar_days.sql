-- Whole days have no zone, and were the midnights of whoever wrote them: a butler of another zone, or the same after its
-- household had moved, had them a day early or late, and the hours of the neighbouring day were taken. Now they are days of
-- UTC, which each reader compares with its own clock.
-- Runs as the owner role with search_path = shared.

ALTER TABLE calendar_instances ADD COLUMN days boolean NOT NULL GENERATED ALWAYS AS (shown ->> 'all_day' IS NOT NULL) STORED;
UPDATE calendar_instances i SET starts_at = n.starts_at, ends_at = greatest(n.starts_at, n.ends_at),
       remind_at = i.remind_at + (n.starts_at - i.starts_at)
FROM (SELECT d.tenant_id, d.event, d.instance, (d.shown ->> 'start_at')::timestamp AT TIME ZONE 'UTC' AS starts_at,
             (d.shown ->> 'end_at')::timestamp AT TIME ZONE 'UTC' AS ends_at
      FROM calendar_instances d WHERE d.days) n
WHERE (i.tenant_id, i.event, i.instance) = (n.tenant_id, n.event, n.instance);
