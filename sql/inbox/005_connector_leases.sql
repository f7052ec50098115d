-- One connector for each account, however many daemons run: it takes the account for a while, and renews that.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- By the server's clock. Whoever only gives signs of life from outside has none.
ALTER TABLE connector_registry
    ADD COLUMN lease_id    uuid,
    ADD COLUMN lease_until timestamptz,
    ADD CHECK ((lease_id IS NULL) = (lease_until IS NULL));
