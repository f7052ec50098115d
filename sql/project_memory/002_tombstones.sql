-- Memories that were forgotten elsewhere before they ever came here: whoever brings them later brings them in vain, and
-- other machines hear of it from here as well.
CREATE TABLE project_tombstones (
    project_id uuid NOT NULL REFERENCES projects (id),
    memory_id  uuid NOT NULL,
    at         timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('project_tombstones', 'project_id', 'memory_id');
