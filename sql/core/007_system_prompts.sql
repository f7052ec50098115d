-- System prompts, each once, by its SHA-256. Only what the files of the roster make of it: what memory and notes add to it
-- stands in the session's own row, with the session's label.
-- Runs as the owner role with search_path = <schema>, shared, public.

CREATE TABLE system_prompts (
    sha256     bytea NOT NULL,
    -- What stands before and after the butler's notes to itself.
    parts      text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('system_prompts', 'sha256');

-- With prompt_sha256, system_prompt is only what follows these parts, and prompt_notes is what stands between them. Rows
-- from before have all in system_prompt.
ALTER TABLE sessions ADD COLUMN prompt_sha256 bytea, ADD COLUMN prompt_notes text,
    -- Keeps a prompt that a session begins with from going as one that no session has.
    ADD FOREIGN KEY (tenant_id, prompt_sha256) REFERENCES system_prompts (tenant_id, sha256);
