-- Runs that wait until their butler is idle say so.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- That it waits, or how its wait ended. A run that is over has it in its reason too.
ALTER TABLE schedule_runs ADD COLUMN waited text;
