-- Times that were taken out of a schedule: it does not come then, and nothing was missed.
-- Runs as the owner role with search_path = <schema>, shared, public.
ALTER TABLE scheduled_tasks ADD COLUMN except_at timestamptz[] NOT NULL DEFAULT '{}';
