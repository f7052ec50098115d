-- Codes by which a person binds an account of theirs on a channel to their name, as the owner made them.
-- Runs as the owner role with search_path = shared.

CREATE TABLE pairings (
    -- Of the code: it is shown once, and to the owner.
    sha256     bytea PRIMARY KEY CHECK (octet_length(sha256) = 32),
    channel    text NOT NULL CHECK (channel <> ''),
    person     text NOT NULL CHECK (person <> ''),
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    expires_at timestamptz NOT NULL,
    -- Who showed it; one account alone.
    used_at    timestamptz,
    used_by    text,
    CHECK ((used_at IS NULL) = (used_by IS NULL))
);
SELECT shared.tenant_table('pairings');

-- Notes a code. Those of a day ago or longer go.
CREATE FUNCTION pairing_make(code bytea, on_channel text, whose text, until timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    IF NOT shared.keeps_people() THEN
        RAISE EXCEPTION 'only the switchboard notes who is who' USING ERRCODE = '42501';
    END IF;
    DELETE FROM pairings p WHERE p.tenant_id = shared.tenant() AND p.expires_at < shared.clock() - interval '1 day';
    INSERT INTO pairings (sha256, channel, person, expires_at) VALUES (code, on_channel, whose, until);
END $$;

-- An account shows a code. `ended`: `paired` (also where this account showed it before), `taken` (the account is another
-- person's, and the code stays good), `late`, or `unknown`: there is none, or another account showed it.
CREATE FUNCTION pairing_use(code bytea, on_channel text, as_identity text)
RETURNS TABLE (ended text, name text) LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
#variable_conflict use_column
DECLARE
    found pairings;
    whose text;
BEGIN
    IF NOT shared.keeps_people() THEN
        RAISE EXCEPTION 'only the switchboard notes who is who' USING ERRCODE = '42501';
    END IF;
    SELECT * INTO found FROM pairings p
    WHERE p.tenant_id = shared.tenant() AND p.sha256 = code AND p.channel = on_channel FOR UPDATE;
    IF found.sha256 IS NULL OR found.used_by <> as_identity THEN
        RETURN QUERY SELECT 'unknown', NULL::text;
    ELSIF found.used_by IS NOT NULL THEN
        -- Unless the owner has taken it back since.
        RETURN QUERY SELECT CASE WHEN EXISTS (SELECT 1 FROM contact_identities i WHERE i.tenant_id = shared.tenant()
                                              AND i.channel = on_channel AND i.identity = as_identity)
                                 THEN 'paired' ELSE 'unknown' END, found.person;
    ELSIF found.expires_at <= shared.clock() THEN
        RETURN QUERY SELECT 'late', NULL::text;
    ELSE
        SELECT a.name INTO whose FROM shared.contact_identity_add(found.person, on_channel, as_identity) a;
        IF lower(whose) <> lower(found.person) THEN
            RETURN QUERY SELECT 'taken', whose;
        ELSE
            UPDATE pairings p SET used_at = shared.clock(), used_by = as_identity WHERE p.sha256 = code;
            RETURN QUERY SELECT 'paired', found.person;
        END IF;
    END IF;
END $$;
