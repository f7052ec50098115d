-- A memory was told once a hook has printed it. Until the hook says so, it is on its way for a moment; what a hook that
-- died had in hand may be told again.
ALTER TABLE project_injections ADD COLUMN printed boolean NOT NULL DEFAULT true;
ALTER TABLE project_injections ALTER COLUMN printed SET DEFAULT false;
