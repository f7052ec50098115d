-- What the jobs of butlers share.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- The span of time that a run of a job answers for, so that each moment is answered for once: from the last run that was
-- done to the one that is at work. Where no schedule runs the job it is the last `step`. What a run could not tell the
-- next one does, up to a week back; what passed while the schedule was paused nobody wants to be told.
CREATE FUNCTION job_span(job text, step interval, OUT since timestamptz, OUT until timestamptz)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    SELECT r.fire_at, (SELECT max(CASE d.state WHEN 'done' THEN d.fire_at ELSE coalesce(d.until_at, d.fire_at) END)
                       FROM schedule_runs d
                       WHERE d.task_id = t.id AND d.fire_at < r.fire_at AND (d.state = 'done' OR d.cause = 'rest'))
      INTO until, since
      FROM scheduled_tasks t JOIN schedule_runs r ON r.task_id = t.id
     WHERE t.job_name = job AND r.state = 'running'
     ORDER BY r.started_at DESC LIMIT 1;
    until := coalesce(until, shared.clock());
    since := CASE WHEN FOUND THEN greatest(since, until - interval '7 days') ELSE until - step END;
END $$;
