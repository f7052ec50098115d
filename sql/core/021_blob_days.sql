-- The attachments of the last day are found by their time: how much came decides whether those of strangers are kept.
-- Runs as the owner role with search_path = <schema>, shared, public.
CREATE INDEX blobs_newest ON blobs (tenant_id, created_at);
