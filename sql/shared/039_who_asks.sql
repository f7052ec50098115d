-- What policies ask of whoever reads.
-- Runs as the owner role with search_path = shared.

-- A function of SQL that is not written into its statement is parsed and planned anew by each one that calls it, which costs
-- some ten times as much as the look itself; one of PL/pgSQL is planned once for a connection. Policies call these several
-- times in a statement.
CREATE OR REPLACE FUNCTION asking_butler() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    RETURN (SELECT r.butler FROM shared.butler_roles r WHERE r.role = session_user);
END $$;

CREATE OR REPLACE FUNCTION is_butler() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM shared.butler_roles r WHERE r.role = session_user);
END $$;

CREATE OR REPLACE FUNCTION keeps_people() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM shared.butler_roles r WHERE r.role = session_user AND r.butler = 'switchboard');
END $$;

CREATE OR REPLACE FUNCTION keeps_register() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM shared.butler_roles r WHERE r.role = session_user AND r.butler = 'relationship');
END $$;
