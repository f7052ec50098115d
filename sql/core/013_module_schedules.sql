-- Schedules that a butler has because of a module and that people see in their list, unlike the house's own upkeep.
-- Runs as the owner role with search_path = <schema>, shared, public.

ALTER TABLE scheduled_tasks
    DROP CONSTRAINT scheduled_tasks_source_check,
    ADD CONSTRAINT scheduled_tasks_source_check CHECK (source IN ('toml', 'db', 'module', 'house'));
