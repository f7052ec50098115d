-- Where a butler's own event is, and what there is to say of it. Calendars show both.
-- Runs as the owner role with search_path = <schema>, shared, public.
ALTER TABLE scheduled_tasks ADD COLUMN location text, ADD COLUMN description text;
