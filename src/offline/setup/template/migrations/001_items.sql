-- What is to be done. Runs with search_path = the butler's schema; never changed once it ran: the next change is 002_….sql.
CREATE TABLE items (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    title      text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
    due_on     date,
    created_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('items');

-- The same thing said twice is one row: item_add relies on this.
CREATE UNIQUE INDEX items_one_title ON items (tenant_id, lower(title));
CREATE INDEX items_by_day ON items (tenant_id, due_on);
