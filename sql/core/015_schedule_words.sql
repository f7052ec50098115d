-- Schedules whose outcome goes to a channel, and runs that a person says are done.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Where the session of a prompt sends what came of it, and to whom there; without `reply_to` to the owner.
ALTER TABLE scheduled_tasks
    ADD COLUMN reply_channel text,
    ADD COLUMN reply_to text,
    ADD CHECK (reply_to IS NULL OR reply_channel IS NOT NULL),
    ADD CHECK (reply_channel IS NULL OR dispatch_mode = 'prompt');

-- When somebody said that the run is done: it ends so, however its session ends, and is not begun again.
ALTER TABLE schedule_runs ADD COLUMN marked_at timestamptz;
