-- How the exchange of a project's memories over its repository stands, by whoever exchanges: `<user>/<machine>`. The exchange
-- itself is made where the repository is; what became of it is noted here, so that its owner sees it.
-- Runs as the owner role with search_path = <schema>, shared, public.
CREATE TABLE project_exchanges (
    project_id uuid NOT NULL REFERENCES projects (id),
    identity   text NOT NULL CHECK (identity <> '' AND length(identity) <= 200),
    pushed_at  timestamptz,
    pulled_at  timestamptz,
    -- Why the last try came to nothing, or only to a part.
    error      text CHECK (length(error) <= 2000),
    noted_at   timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('project_exchanges', 'project_id', 'identity');
