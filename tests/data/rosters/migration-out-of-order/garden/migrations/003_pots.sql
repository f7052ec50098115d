CREATE TABLE pots (id uuid PRIMARY KEY);
SELECT shared.tenant_table('pots');
