-- Whose memory is whose: the projects that coding assistants work in, and what each of their sessions was told.
-- Runs as the owner role with search_path = <schema>, shared, public. What is remembered of a project are facts whose
-- scope is `project:<id>`.

CREATE TABLE projects (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name       text NOT NULL CHECK (name <> ''),
    created_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('projects');

-- By what a project is known. One whose history was rewritten, or that moved, has several.
CREATE TABLE project_identities (
    project_id  uuid NOT NULL REFERENCES projects (id),
    -- Nothing is written as the empty text, so that it is unique as well.
    root_commit text NOT NULL,
    origin      text NOT NULL,
    -- Of what has neither commit nor origin, and of what people name by hand (`name:…`).
    directory   text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('project_identities', 'root_commit', 'origin', 'directory');
CREATE INDEX project_identities_of ON project_identities (project_id);

-- Which memory a session was told, so that it is told none twice.
CREATE TABLE project_injections (
    session    text NOT NULL CHECK (session <> ''),
    memory_id  uuid NOT NULL,
    project_id uuid NOT NULL,
    event      text NOT NULL,
    tokens     integer NOT NULL CHECK (tokens >= 0),
    at         timestamptz NOT NULL DEFAULT shared.clock(),
    -- Until its session's context was cut; it may be told again after that.
    told       boolean NOT NULL DEFAULT true
);
SELECT shared.tenant_table('project_injections');
CREATE UNIQUE INDEX project_injections_once ON project_injections (tenant_id, session, memory_id) WHERE told;
CREATE INDEX project_injections_at ON project_injections (tenant_id, project_id, at);
