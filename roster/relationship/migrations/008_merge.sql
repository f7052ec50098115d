-- Two contacts that are one person, and one that turned out to be two after all.

-- Everything that hangs on a contact: the columns of this butler's tables that refer to one.
CREATE FUNCTION contact_columns() RETURNS TABLE (rel text, col text) LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT t.relname::text, a.attname::text
    FROM pg_constraint k JOIN pg_class t ON t.oid = k.conrelid
    JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.conkey[1]
    WHERE k.contype = 'f' AND k.confrelid = 'contacts'::regclass AND k.conrelid <> 'contacts'::regclass
      AND cardinality(k.conkey) = 1
    ORDER BY 1, 2
$$;

-- Merges a contact into another one. Rows go over; where the target has the same already, the source's stays behind.
CREATE FUNCTION contact_merge(source uuid, target uuid) RETURNS jsonb LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    s contacts;
    t contacts;
    now_t contacts;
    spot record;
    row_id uuid;
    ids uuid[];
    moved jsonb := '[]';
    counts jsonb := '{}';
    stayed integer := 0;
    filled jsonb;
    names integer;
BEGIN
    source := contact_there('source_id', source);
    target := contact_there('target_id', target);
    IF source = target THEN
        RAISE EXCEPTION 'source_id and target_id are the same contact already.' USING ERRCODE = '22023';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('relationship.contacts ' || shared.tenant(), 0));
    SELECT * INTO s FROM contacts o WHERE o.id = source FOR UPDATE;
    SELECT * INTO t FROM contacts o WHERE o.id = target FOR UPDATE;
    IF s.is_owner THEN
        RAISE EXCEPTION '% is the person themself: give them as target_id.', s.name USING ERRCODE = '22023';
    END IF;

    FOR spot IN SELECT * FROM contact_columns() LOOP
        ids := '{}';
        BEGIN
            EXECUTE format('WITH m AS (UPDATE %1$I r SET %2$I = $2 WHERE r.%2$I = $1 RETURNING r.id)
                            SELECT coalesce(array_agg(m.id), ''{}'') FROM m', spot.rel, spot.col)
            INTO ids USING source, target;
        EXCEPTION WHEN unique_violation OR check_violation OR data_exception THEN
            -- One by one, then, so that what both have keeps back nothing else.
            FOR row_id IN EXECUTE format('SELECT r.id FROM %1$I r WHERE r.%2$I = $1', spot.rel, spot.col) USING source LOOP
                BEGIN
                    EXECUTE format('UPDATE %1$I r SET %2$I = $2 WHERE r.id = $1', spot.rel, spot.col) USING row_id, target;
                    ids := ids || row_id;
                EXCEPTION WHEN unique_violation OR check_violation OR data_exception THEN
                    stayed := stayed + 1;
                END;
            END LOOP;
        END;
        IF cardinality(ids) > 0 THEN
            moved := moved || jsonb_build_object('rel', spot.rel, 'col', spot.col, 'ids', to_jsonb(ids));
            counts := counts || jsonb_build_object(spot.rel,
                coalesce((counts ->> spot.rel)::int, 0) + cardinality(ids));
        END IF;
    END LOOP;

    -- What the target does not say, the source says for it; the circle, the days and the last contact too.
    SELECT coalesce(jsonb_object_agg(o.key, o.value), '{}') INTO filled
    FROM jsonb_each(to_jsonb(s)) o JOIN jsonb_each(to_jsonb(t)) n USING (key)
    WHERE o.value <> 'null' AND n.value = 'null'
      AND o.key IN ('first_name', 'last_name', 'nickname', 'company', 'job_title', 'gender', 'pronouns', 'avatar_url',
                    'stay_in_touch_days', 'stay_in_touch_from', 'dunbar_tier', 'entity_id');
    IF s.last_contact_at > coalesce(t.last_contact_at, '-infinity') THEN
        filled := filled || jsonb_build_object('last_contact_at', s.last_contact_at);
    END IF;
    now_t := jsonb_populate_record(t, filled);
    IF t.entity_id IS NOT NULL AND s.entity_id IS NOT NULL AND t.entity_id <> s.entity_id THEN
        names := shared.entity_merge(s.entity_id, t.entity_id);
    END IF;
    UPDATE contacts n SET archived_at = shared.clock(), merged_into = target, merged = jsonb_build_object('moved', moved,
            'filled', filled, 'before', (SELECT coalesce(jsonb_object_agg(b.key, b.value), '{}')
                FROM jsonb_each(to_jsonb(t)) b WHERE filled ? b.key),
            'details', t.details, 'metadata', t.metadata, 'entity', names IS NOT NULL)
    WHERE n.id = source;
    UPDATE contacts n SET first_name = now_t.first_name, last_name = now_t.last_name, nickname = now_t.nickname,
        company = now_t.company, job_title = now_t.job_title, gender = now_t.gender, pronouns = now_t.pronouns,
        avatar_url = now_t.avatar_url, stay_in_touch_days = now_t.stay_in_touch_days,
        stay_in_touch_from = now_t.stay_in_touch_from, dunbar_tier = now_t.dunbar_tier, entity_id = now_t.entity_id,
        last_contact_at = now_t.last_contact_at, details = s.details || t.details, metadata = s.metadata || t.metadata
    WHERE n.id = target RETURNING n.* INTO now_t;
    PERFORM contact_roles_follow(target);
    RETURN contact_shown(now_t) || jsonb_build_object('merged_from', source, 'moved', counts, 'stayed_behind', stayed,
        'taken_over', (SELECT coalesce(jsonb_agg(k ORDER BY k), '[]') FROM jsonb_object_keys(filled) k));
EXCEPTION WHEN SQLSTATE 'BD002' THEN
    RAISE EXCEPTION 'Nobody is merged on the word of a stranger; ask the owner.' USING ERRCODE = '22023';
END $$;

-- Brings an archived contact back. Of one that was merged the merge is taken back: its rows return to it, and the other
-- contact gives up what it took over, unless that was changed since.
CREATE FUNCTION contact_restore(which uuid) RETURNS jsonb LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    c contacts;
    t contacts;
    spot record;
    back jsonb := '{}';
    n integer;
    apart boolean;
BEGIN
    SELECT * INTO c FROM contacts o WHERE o.id = which FOR UPDATE;
    IF c.id IS NULL THEN
        RAISE EXCEPTION 'There is no contact with that id; contact_search with archived = true lists those to restore.'
            USING ERRCODE = '22023';
    ELSIF c.archived_at IS NULL THEN
        RETURN contact_shown(c) || '{"restored": false}';
    ELSIF c.merged_into IS NOT NULL THEN
        SELECT * INTO t FROM contacts o WHERE o.id = c.merged_into FOR UPDATE;
        IF t.archived_at IS NOT NULL THEN
            RAISE EXCEPTION 'It was merged into %, which is archived itself: contact_restore with contact_id % first.',
                t.name, t.id USING ERRCODE = '22023';
        END IF;
        FOR spot IN SELECT m.* FROM jsonb_to_recordset(c.merged -> 'moved') AS m(rel text, col text, ids uuid[])
            JOIN contact_columns() k ON k.rel = m.rel AND k.col = m.col
        LOOP
            EXECUTE format('UPDATE %1$I r SET %2$I = $1 WHERE r.id = ANY ($2) AND r.%2$I = $3', spot.rel, spot.col)
            USING c.id, spot.ids, t.id;
            GET DIAGNOSTICS n = ROW_COUNT;
            back := back || jsonb_build_object(spot.rel, coalesce((back ->> spot.rel)::int, 0) + n);
        END LOOP;
        -- What hangs on rows that went back has followed them.
        SELECT * INTO t FROM contacts o WHERE o.id = c.merged_into;
        t := jsonb_populate_record(t, (SELECT coalesce(jsonb_object_agg(b.key, b.value), '{}')
            FROM jsonb_each(c.merged -> 'before') b WHERE to_jsonb(t) -> b.key = c.merged -> 'filled' -> b.key));
        IF t.details = c.details || (c.merged -> 'details') THEN
            t.details := c.merged -> 'details';
        END IF;
        IF t.metadata = c.metadata || (c.merged -> 'metadata') THEN
            t.metadata := c.merged -> 'metadata';
        END IF;
        UPDATE contacts o SET first_name = t.first_name, last_name = t.last_name, nickname = t.nickname,
            company = t.company, job_title = t.job_title, gender = t.gender, pronouns = t.pronouns,
            avatar_url = t.avatar_url, stay_in_touch_days = t.stay_in_touch_days,
            stay_in_touch_from = t.stay_in_touch_from, dunbar_tier = t.dunbar_tier, entity_id = t.entity_id,
            last_contact_at = t.last_contact_at, details = t.details, metadata = t.metadata
        WHERE o.id = t.id;
        IF (c.merged ->> 'entity')::boolean THEN
            apart := shared.entity_unmerge(c.entity_id);
        END IF;
    END IF;
    UPDATE contacts o SET archived_at = NULL, merged_into = NULL, merged = NULL WHERE o.id = which RETURNING o.* INTO c;
    PERFORM contact_roles_follow(t.id);
    PERFORM contact_roles_follow(c.id);
    RETURN contact_shown(c) || '{"restored": true}'
        || CASE WHEN t.id IS NOT NULL THEN jsonb_build_object('was_merged_into', t.id, 'moved_back', back) ELSE '{}' END;
EXCEPTION WHEN SQLSTATE 'BD002' THEN
    RAISE EXCEPTION 'No merge is taken back on the word of a stranger; ask the owner.' USING ERRCODE = '22023';
END $$;
