-- Events of a calendar of which nobody could say when they are.
-- Runs as the owner role with search_path = shared.

-- They were kept as if they took place once and at no time, so that nobody looked at them again and their time was called
-- free. Who looks now lays them out, or is told that nobody can.
UPDATE calendar_events e SET repeats = true, projected_from = clock_timestamp(), projected_to = clock_timestamp()
WHERE NOT e.repeats
  AND NOT EXISTS (SELECT FROM calendar_instances i WHERE i.tenant_id = e.tenant_id AND i.event = e.id);

-- When the household reminds of an instance: what lists show of it says how long before its start.
ALTER TABLE calendar_instances ADD COLUMN remind_at timestamptz;
CREATE FUNCTION calendar_remind() RETURNS trigger LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
BEGIN
    NEW.remind_at := NEW.starts_at - make_interval(mins => (NEW.shown ->> 'reminder_minutes')::integer);
    RETURN NEW;
END $$;
CREATE TRIGGER calendar_remind BEFORE INSERT ON calendar_instances FOR EACH ROW
    WHEN (NEW.shown ->> 'reminder_minutes' IS NOT NULL) EXECUTE FUNCTION calendar_remind();
CREATE INDEX calendar_instances_remind ON calendar_instances (tenant_id, remind_at) WHERE remind_at IS NOT NULL;
