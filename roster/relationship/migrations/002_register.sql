-- The register of contacts: making, changing, archiving, finding.

-- A contact as tools show it; what is not known is left out.
CREATE FUNCTION contact_shown(c contacts) RETURNS jsonb LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT jsonb_object_agg(o.key, o.value)
    FROM jsonb_each(to_jsonb(c) - '{tenant_id,trust,name_key,revisions,merged,stay_in_touch_from}'::text[]) o
    WHERE o.value NOT IN ('null', '{}') AND (o.key, o.value) <> ('is_owner', 'false')
$$;

-- Words as they are compared, without what stands around them: of "Anna's" it is anna.
CREATE FUNCTION words_of(given text) RETURNS text[] LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS $$
    SELECT coalesce(array_agg(w.word ORDER BY s.n) FILTER (WHERE w.word <> ''), '{}')
    FROM regexp_split_to_table(translate(folded(given), '’', ''''), '[^[:alnum:]@.+''-]+') WITH ORDINALITY s(piece, n)
    CROSS JOIN LATERAL (SELECT regexp_replace(btrim(s.piece, '.+''-'), '''s$', '') AS word) w
$$;

-- What was given, without what was not.
CREATE FUNCTION only_given(given jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(jsonb_object_agg(g.key, g.value), '{}') FROM jsonb_each(given) g WHERE g.value <> 'null' $$;

-- One object over another: its keys replace, and a key that is null goes.
CREATE FUNCTION json_over(old jsonb, more jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF jsonb_typeof(more) <> 'object' THEN
        RAISE EXCEPTION 'details and metadata are objects such as {"hobby": "chess"}.' USING ERRCODE = '22023';
    END IF;
    RETURN only_given(old || more);
END $$;

-- Notes somebody. A name that is there already is that contact, unless `another` says that it is a second person; what
-- goes beyond what is on record is refused then, so that nothing is lost unsaid.
CREATE FUNCTION contact_create(given jsonb, another boolean) RETURNS jsonb
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    fresh contacts;
    c contacts;
    called text;
    differs text;
    -- What strangers brought is looked at on a stranger's word alone: it lowers whoever sees it.
    low CONSTANT boolean := shared.trust() = 'stranger';
BEGIN
    SELECT coalesce(jsonb_object_agg(g.key, CASE jsonb_typeof(g.value) WHEN 'string' THEN to_jsonb(btrim(g.value #>> '{}'))
                                                                       ELSE g.value END), '{}')
    INTO given FROM jsonb_each(only_given(given)) g WHERE btrim(g.value #>> '{}') <> '';
    fresh := jsonb_populate_record(NULL::contacts, given);
    called := coalesce(fresh.name, nullif(concat_ws(' ', fresh.first_name, fresh.last_name), ''), fresh.nickname);

    -- Two calls with one name make one person.
    PERFORM pg_advisory_xact_lock(hashtextextended('relationship.contacts ' || shared.tenant(), 0));
    SELECT * INTO c FROM contacts o
    WHERE o.name_key = folded(called) AND o.merged_into IS NULL AND (o.trust <> 'stranger' OR low)
    ORDER BY o.archived_at IS NOT NULL, o.created_at, o.id LIMIT 1;
    IF c.id IS NOT NULL AND NOT coalesce(another, false) THEN
        SELECT string_agg(g.key, ', ' ORDER BY g.key) INTO differs FROM jsonb_each(given) g
        WHERE g.key <> 'name' AND (to_jsonb(c) -> g.key @> g.value) IS NOT TRUE;
        IF c.archived_at IS NOT NULL THEN
            RAISE EXCEPTION '% is there, but archived. contact_restore with contact_id % brings it back; another = true '
                'makes a second person of that name.', c.name, c.id USING ERRCODE = '22023';
        ELSIF differs IS NOT NULL THEN
            RAISE EXCEPTION '% is there already, as contact %, without this: %. contact_update adds it; another = true '
                'makes a second person of that name.', c.name, c.id, differs USING ERRCODE = '22023';
        END IF;
        RETURN contact_shown(c) || '{"already_there": true}';
    END IF;

    IF fresh.entity_id IS NOT NULL THEN
        fresh.entity_id := entity_free('entity_id', fresh.entity_id, NULL);
    ELSIF called IS NOT NULL THEN
        fresh.entity_id := contact_entity(called, fresh.nickname, fresh.company);
    END IF;
    INSERT INTO contacts AS n (name, first_name, last_name, nickname, company, job_title, gender, pronouns, avatar_url,
        listed, details, metadata, entity_id)
    VALUES (called, fresh.first_name, fresh.last_name, fresh.nickname, fresh.company, fresh.job_title, fresh.gender,
        fresh.pronouns, fresh.avatar_url, coalesce(fresh.listed, true), json_over('{}', coalesce(fresh.details, '{}')),
        json_over('{}', coalesce(fresh.metadata, '{}')), fresh.entity_id)
    RETURNING n.* INTO c;
    RETURN contact_shown(c) || '{"already_there": false}';
END $$;

-- Changes what is given of a contact; an empty text takes a value away.
CREATE FUNCTION contact_update(which uuid, given jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    was contacts;
    c contacts;
    also contacts;
BEGIN
    which := contact_there('contact_id', which);
    given := only_given(given);
    IF given = '{}' THEN
        RAISE EXCEPTION 'Nothing to change was given: name what changes, such as company or nickname.'
            USING ERRCODE = '22023';
    END IF;
    SELECT * INTO was FROM contacts o WHERE o.id = which FOR UPDATE;
    also := jsonb_populate_record(was, given - '{details,metadata,entity_id}'::text[]);
    IF NOT given ? 'name' AND was.name = concat_ws(' ', was.first_name, was.last_name) THEN
        -- A name that was made of its parts follows them.
        also.name := '';
    END IF;
    IF given ? 'entity_id' THEN
        also.entity_id := entity_free('entity_id', (given ->> 'entity_id')::uuid, which);
    END IF;
    UPDATE contacts n SET name = also.name, first_name = also.first_name, last_name = also.last_name,
        nickname = also.nickname, company = also.company, job_title = also.job_title, gender = also.gender,
        pronouns = also.pronouns, avatar_url = also.avatar_url, listed = also.listed, entity_id = also.entity_id,
        details = json_over(n.details, coalesce(given -> 'details', '{}')),
        metadata = json_over(n.metadata, coalesce(given -> 'metadata', '{}'))
    WHERE n.id = which RETURNING n.* INTO c;
    IF (c.name, c.nickname) IS DISTINCT FROM (was.name, was.nickname) THEN
        PERFORM contact_entity_follow(c, was.name);
    END IF;
    IF c.entity_id IS DISTINCT FROM was.entity_id THEN
        PERFORM contact_roles_follow(which);
    END IF;
    RETURN contact_shown(c) || CASE WHEN jsonb_array_length(c.revisions) > jsonb_array_length(was.revisions)
                                    THEN jsonb_build_object('previous', c.revisions -> -1) ELSE '{"changed": false}' END;
END $$;

-- Takes a contact out of the register without losing anything of it.
CREATE FUNCTION contact_archive(which uuid) RETURNS jsonb LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    c contacts;
BEGIN
    SELECT * INTO c FROM contacts o WHERE o.id = which FOR UPDATE;
    IF c.id IS NULL THEN
        PERFORM contact_there('contact_id', which);
    ELSIF c.is_owner THEN
        RAISE EXCEPTION 'This is the person themself; ties begin at them, so they stay.' USING ERRCODE = '22023';
    ELSIF c.archived_at IS NULL THEN
        UPDATE contacts n SET archived_at = shared.clock() WHERE n.id = which
        RETURNING n.* INTO c;
        PERFORM contact_roles_follow(which);
    END IF;
    RETURN contact_shown(c);
END $$;

-- All that is known of somebody, in one answer; the longest lists are cut.
CREATE FUNCTION contact_card(which uuid) RETURNS jsonb LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    c contacts;
    at uuid := which;
BEGIN
    FOR step IN 1..32 LOOP
        SELECT * INTO c FROM contacts o WHERE o.id = at;
        EXIT WHEN c.id IS NULL OR c.merged_into IS NULL;
        at := c.merged_into;
    END LOOP;
    IF c.id IS NULL THEN
        SELECT * INTO c FROM contacts o WHERE o.entity_id = shared.entity_standing(which) AND o.merged_into IS NULL
        ORDER BY o.archived_at IS NOT NULL, o.created_at, o.id LIMIT 1;
        IF c.id IS NULL THEN
            RETURN NULL;
        END IF;
    END IF;
    RETURN contact_shown(c)
        || CASE WHEN at <> which THEN jsonb_build_object('merged_from', which) ELSE '{}' END
        || jsonb_build_object(
        'contact_info', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', i.id, 'type', i.type, 'value', i.value,
                'label', i.label, 'is_primary', i.is_primary) ORDER BY i.type, NOT i.is_primary, i.created_at, i.id), '[]')
            FROM contact_info i WHERE i.contact_id = c.id AND i.deleted_at IS NULL),
        'addresses', (SELECT coalesce(jsonb_agg(address_shown(a) ORDER BY NOT a.is_current, a.created_at, a.id), '[]')
            FROM addresses a WHERE a.contact_id = c.id AND a.deleted_at IS NULL),
        'dates', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', d.id, 'label', d.label, 'month', d.month,
                'day', d.day, 'year', d.year) ORDER BY d.month, d.day, d.id), '[]')
            FROM important_dates d WHERE d.contact_id = c.id AND d.deleted_at IS NULL),
        'facts', (SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}') FROM (SELECT * FROM quick_facts q
            WHERE q.contact_id = c.id AND q.deleted_at IS NULL ORDER BY q.key LIMIT 100) f),
        'labels', (SELECT coalesce(jsonb_agg(l.name ORDER BY l.name), '[]')
            FROM contact_labels m JOIN labels l ON l.id = m.label_id
            WHERE m.contact_id = c.id AND m.deleted_at IS NULL),
        'groups', (SELECT coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object('id', g.id, 'name', g.name,
                'role', m.role)) ORDER BY g.name), '[]')
            FROM group_members m JOIN groups g ON g.id = m.group_id WHERE m.contact_id = c.id AND m.deleted_at IS NULL),
        'relationships', (SELECT coalesce(jsonb_agg(jsonb_build_object('contact_id', t.contact_id, 'name', t.name,
                'is_their', t.is_their)), '[]') FROM ties_of(c.id, 100, 0) t));
END $$;

-- All that somebody is found by, as it is compared.
CREATE FUNCTION contact_text(c contacts) RETURNS text LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN folded(concat_ws(' ', c.name, c.first_name, c.last_name, c.nickname, c.company, c.job_title,
        nullif(c.details, '{}')::text,
        (SELECT string_agg(f.key || ' ' || f.value, ' ') FROM quick_facts f
         WHERE f.contact_id = c.id AND f.deleted_at IS NULL),
        (SELECT string_agg(i.value, ' ') FROM contact_info i WHERE i.contact_id = c.id AND i.deleted_at IS NULL),
        (SELECT string_agg(concat_ws(' ', a.city, a.country), ' ') FROM addresses a
         WHERE a.contact_id = c.id AND a.deleted_at IS NULL),
        (SELECT string_agg(l.name, ' ') FROM contact_labels m JOIN labels l ON l.id = m.label_id
         WHERE m.contact_id = c.id AND m.deleted_at IS NULL),
        (SELECT string_agg(concat_ws(' ', g.name, m.role), ' ') FROM group_members m JOIN groups g ON g.id = m.group_id
         WHERE m.contact_id = c.id AND m.deleted_at IS NULL)));
END $$;

-- Contacts in which each word of the query stands somewhere: names, work, details, facts, labels, groups, towns, ways to
-- reach them. Those whose name it is come first. What strangers brought is a list of its own.
CREATE FUNCTION contacts_found(query text, in_archive boolean, of_strangers boolean, most integer, skip integer)
RETURNS SETOF contacts LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    wanted CONSTANT text[] := words_of(query);
BEGIN
    IF query IS NOT NULL AND wanted = '{}' THEN
        RAISE EXCEPTION 'query is "%", which holds no letter or digit. Give a name, a word of what is known, or leave it '
            'out for all contacts.', query USING ERRCODE = '22023';
    END IF;
    RETURN QUERY
    SELECT c.* FROM contacts c
    WHERE (c.trust = 'stranger') = of_strangers AND (c.archived_at IS NOT NULL) = in_archive
      AND (query IS NULL OR NOT EXISTS (SELECT 1 FROM unnest(wanted) w WHERE strpos(contact_text(c), w) = 0))
    ORDER BY CASE WHEN folded(query) IN (c.name_key, folded(c.nickname)) THEN 0
                  WHEN words_of(concat_ws(' ', c.name, c.nickname)) && wanted THEN 1 ELSE 2 END,
             c.name_key, c.created_at, c.id
    LIMIT most OFFSET skip;
END $$;
