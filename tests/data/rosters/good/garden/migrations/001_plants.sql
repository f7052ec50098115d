-- The plants of the house.
CREATE TABLE plants (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name       text NOT NULL,
    watered_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('plants');
CREATE UNIQUE INDEX plants_one_name ON plants (tenant_id, name);
