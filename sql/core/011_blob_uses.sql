-- When an attachment came last: how long it is kept counts from then. Of those from before that is now.
-- Runs as the owner role with search_path = <schema>, shared, public.

ALTER TABLE blobs ADD COLUMN used_at timestamptz NOT NULL DEFAULT shared.clock();
