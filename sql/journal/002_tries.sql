-- A sync whose own pass is worked in goes on with the words of others, and not without end.
-- Runs as the owner role with search_path = <schema>, shared, public.
ALTER TABLE journal_syncs ADD COLUMN tries integer NOT NULL DEFAULT 0;
