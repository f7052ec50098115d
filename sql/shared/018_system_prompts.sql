-- A session's system prompt is kept once for all sessions that were told the same: see sql/core/007_system_prompts.sql.
-- Runs as the owner role with search_path = shared.

-- Keeps what the files of a roster make of a system prompt, and returns the name of it. What this is, the daemon says.
-- Every session is told it, whoever it answers: reading it lowers nobody's label.
CREATE FUNCTION keep_system_prompt(parts text[], seal text) RETURNS bytea
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text := shared.by_daemon(seal);
    hash bytea := sha256(convert_to(array_to_json(parts)::text, 'UTF8'));
BEGIN
    EXECUTE format('INSERT INTO %I.system_prompts (sha256, parts, trust, audience) VALUES ($1, $2, ''system'', ''{*}'')
                    ON CONFLICT DO NOTHING', (SELECT r.schema FROM butler_roles r WHERE r.butler = who))
    USING hash, parts;
    RETURN hash;
END $$;
