-- How large tables were, about once a day for a month: by this it is told what grows, and when the disk is full.
-- Runs as the owner role with search_path = shared.

-- Of the household as a whole: tenant `owner`.
CREATE TABLE table_sizes (
    schema   text NOT NULL,
    name     text NOT NULL,
    taken_at timestamptz NOT NULL,
    -- With its indexes and its large values.
    bytes    bigint NOT NULL
);
SELECT shared.tenant_table('table_sizes', 'schema', 'name', 'taken_at');
REVOKE ALL ON table_sizes FROM PUBLIC;
