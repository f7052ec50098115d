CREATE TABLE things (id uuid PRIMARY KEY, name text, at timestamptz);
SELECT shared.tenant_table('things');
