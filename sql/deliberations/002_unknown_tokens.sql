-- How many tokens a model used may be unknown, as its price may.
-- Runs as the owner role with search_path = <schema>, shared, public.
ALTER TABLE council_steps ALTER COLUMN tokens DROP NOT NULL, ALTER COLUMN tokens DROP DEFAULT;
