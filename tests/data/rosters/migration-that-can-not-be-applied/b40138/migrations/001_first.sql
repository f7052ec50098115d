CREATE TABLE things (id uuid PRIMARY KEY);
SELECT shared.tenant_table('things');
CREATE INDEX by_name ON things (name);
