-- Who somebody is for the whole household: the entity that memory knows, the words by which they are meant ("my
-- sister"), and the identities under which they write. Written through functions of `shared`, which see to who asks.

-- The entity for a new contact: the one that has the name and is nobody else's, or a new one. Of two people with one name
-- the second is told apart by what is known of them.
CREATE FUNCTION contact_entity(called text, nick text, firm text) RETURNS uuid
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    entity uuid;
    also text[] := array_remove(ARRAY[nullif(nick, called)], NULL);
    apart text;
BEGIN
    SELECT n.id INTO entity FROM shared.entity_names() n
    WHERE n.kind = 'person' AND (folded(n.name) = folded(called) OR EXISTS (
              SELECT 1 FROM unnest(n.aliases) a WHERE folded(a) = folded(called)))
      AND NOT EXISTS (SELECT 1 FROM contacts c WHERE c.entity_id = n.id)
    ORDER BY folded(n.name) <> folded(called), n.id LIMIT 1;
    IF entity IS NULL THEN
        entity := shared.entity_create('person', called, also, '{}');
    END IF;
    FOR n IN 2..50 LOOP
        EXIT WHEN entity IS NOT NULL;
        apart := format('%s (%s)', called, coalesce(firm, nullif(nick, called), n::text));
        firm := NULL;
        nick := NULL;
        entity := shared.entity_create('person', apart, called || also, '{}');
    END LOOP;
    RETURN entity;
END $$;

-- An entity that a model named for a contact; it must be there, and nobody else's.
CREATE FUNCTION entity_free(argument text, which uuid, for_contact uuid) RETURNS uuid
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    standing CONSTANT uuid := shared.entity_standing(which);
    other contacts;
BEGIN
    IF standing IS NULL THEN
        RAISE EXCEPTION 'There is no entity with that % (%). memory_entity_resolve finds one.', argument, which
            USING ERRCODE = '22023';
    END IF;
    SELECT * INTO other FROM contacts c
    WHERE c.entity_id = standing AND c.id IS DISTINCT FROM for_contact AND c.archived_at IS NULL LIMIT 1;
    IF other.id IS NOT NULL THEN
        RAISE EXCEPTION 'That entity is %, contact % already. If the two contacts are one person, contact_merge them.',
            other.name, other.id USING ERRCODE = '22023';
    END IF;
    RETURN standing;
END $$;

-- Takes a change of name over to the entity, which keeps the old name as another name.
CREATE FUNCTION contact_entity_follow(c contacts, old_name text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    e record;
    renamed text;
    also text[];
BEGIN
    SELECT * INTO e FROM shared.entity_names() n WHERE n.id = c.entity_id;
    IF e.id IS NULL THEN
        RETURN;
    END IF;
    renamed := CASE WHEN folded(e.name) = folded(old_name) THEN c.name ELSE e.name END;
    SELECT coalesce(array_agg(DISTINCT a ORDER BY a), '{}') INTO also
    FROM unnest(e.aliases || ARRAY[e.name, old_name, c.name, c.nickname]) a WHERE folded(a) <> folded(renamed);
    IF (renamed, also) IS DISTINCT FROM (e.name, e.aliases) THEN
        PERFORM shared.entity_update(e.id, renamed, also, NULL, NULL);
        PERFORM shared.person_renamed(e.id, c.name);
    END IF;
EXCEPTION WHEN SQLSTATE 'BD002' THEN
    -- On a stranger's word the contact changes, which carries its trust, and not what the household knows.
    RETURN;
END $$;

-- Takes over to the entity what somebody is to the person, so that "my sister" means them in memory and messages too.
CREATE FUNCTION contact_roles_follow(which uuid) RETURNS void LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    me uuid;
    e record;
    roles jsonb;
BEGIN
    SELECT c.id INTO me FROM contacts c WHERE c.is_owner;
    SELECT n.id, n.roles INTO e FROM contacts c JOIN shared.entity_names() n ON n.id = c.entity_id WHERE c.id = which;
    IF me IS NULL OR me = which OR e.id IS NULL THEN
        RETURN;
    END IF;
    SELECT coalesce(jsonb_agg(r.role ORDER BY r.role), '[]') INTO roles FROM (
        SELECT o.role FROM jsonb_array_elements_text(e.roles) o(role)
        WHERE o.role NOT IN (SELECT w.forward_label FROM relationship_words() w)
        UNION SELECT t.is_their FROM ties_of(me, 1000, 0) t WHERE t.contact_id = which) r;
    IF roles <> e.roles THEN
        PERFORM shared.entity_update(e.id, NULL, NULL, jsonb_build_object('roles', roles), NULL);
    END IF;
EXCEPTION WHEN SQLSTATE 'BD002' THEN
    RETURN;
END $$;

-- Lets the messenger reach somebody under what was noted, and lets what they write be theirs. False: it is no channel of
-- messages, it is somebody else's, or it was not the person's own word.
CREATE FUNCTION contact_reach(which uuid, of_type text, plain text) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    c contacts;
BEGIN
    SELECT * INTO c FROM contacts o WHERE o.id = which;
    RETURN of_type IN ('email', 'telegram', 'whatsapp', 'signal', 'matrix') AND c.entity_id IS NOT NULL
        AND NOT c.is_owner AND shared.person_reach(c.entity_id, c.name, of_type, plain);
END $$;

CREATE FUNCTION contact_unreach(which uuid, of_type text, plain text) RETURNS void
LANGUAGE sql SET search_path FROM CURRENT AS $$
    SELECT shared.person_unreach(c.entity_id, of_type, plain) FROM contacts c WHERE c.id = which
$$;

-- Whom a name or a word such as "my sister" means.
CREATE FUNCTION contact_resolve(said text, hint text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    wanted CONSTANT text := folded(regexp_replace(btrim(said), '^(my|our|the)\s+', '', 'i'));
    words CONSTANT text[] := words_of(wanted);
    word CONSTANT text := relationship_word(said);
    clues CONSTANT text[] := ARRAY(SELECT w FROM unnest(words_of(hint)) w WHERE length(w) > 2);
    me contacts;
    found jsonb;
    best jsonb;
    ahead numeric;
    level text[];
BEGIN
    IF words = '{}' THEN
        RAISE EXCEPTION 'name is "%", which holds no letter. Give a name, or a word such as sister.', said
            USING ERRCODE = '22023';
    ELSIF wanted IN ('she', 'he', 'they', 'her', 'him', 'them', 'it', 'you', 'we', 'us', 'someone', 'somebody', 'anybody',
                     'everyone', 'everybody', 'nobody') THEN
        RAISE EXCEPTION '"%" names nobody. Take the name from the conversation, or ask whom they mean.', said
            USING ERRCODE = '22023';
    END IF;
    SELECT * INTO me FROM contacts c WHERE c.is_owner;
    IF wanted IN ('me', 'myself', 'i', 'owner', 'user', 'self') THEN
        RETURN CASE WHEN me.id IS NULL THEN '{"match": "none", "candidates": []}'
                    ELSE jsonb_build_object('match', 'exact', 'contact_id', me.id, 'entity_id', me.entity_id,
                                            'name', me.name, 'candidates', '[]'::jsonb) END;
    END IF;

    -- What known people and strangers brought is looked at only where the household's own has nobody: whoever sees it is
    -- believed no more than they are.
    FOREACH level SLICE 1 IN ARRAY ARRAY[['owner', 'system'], ['known', 'known'], ['stranger', 'stranger']] LOOP
        SELECT coalesce(jsonb_agg(jsonb_build_object('contact_id', r.id, 'entity_id', r.entity_id, 'name', r.name, 'score',
                   r.score, 'why', r.why) ORDER BY r.score DESC, r.name, r.id), '[]') INTO found
        FROM (
            SELECT m.id, m.entity_id, m.name, array_to_string(array_remove(ARRAY[m.why, k.why], NULL), '; ') AS why,
                   m.score + k.score + coalesce(5 - array_position(ARRAY[5, 15, 50, 150], m.dunbar_tier), 0)
                   + CASE WHEN m.last_contact_at > shared.clock() - interval '30 days' THEN 3 ELSE 0 END AS score
            FROM (
                SELECT c, c.id, c.entity_id, c.name, c.dunbar_tier, c.last_contact_at, b.score, b.why
                FROM contacts c LEFT JOIN shared.entity_names() n ON n.id = c.entity_id
                CROSS JOIN LATERAL (SELECT words_of(concat_ws(' ', c.name, c.first_name, c.last_name, c.nickname)) AS own) o
                CROSS JOIN LATERAL (
                    SELECT 110 AS score, 'the person''s ' || t.is_their AS why
                    FROM ties_of(me.id, 1000, 0) t WHERE t.contact_id = c.id AND t.is_their = word
                    UNION ALL
                    SELECT 105, 'the person''s ' || t.is_their
                    FROM ties_of(me.id, 1000, 0) t JOIN relationship_words() w ON w.forward_label = t.is_their
                    WHERE t.contact_id = c.id AND w.kind = word
                    UNION ALL
                    SELECT 100, 'noted as ' || r.role FROM jsonb_array_elements_text(n.roles) r(role)
                    WHERE folded(r.role) = wanted
                    UNION ALL
                    SELECT 100, 'the name' WHERE wanted IN (c.name_key, folded(concat_ws(' ', c.first_name, c.last_name)))
                    UNION ALL
                    SELECT 95, 'the nickname' WHERE wanted = folded(c.nickname)
                    UNION ALL
                    SELECT 80, 'another name' FROM unnest(n.aliases) a WHERE folded(a) = wanted
                    UNION ALL
                    SELECT 60, 'part of the name' WHERE words <@ o.own
                    UNION ALL
                    SELECT 45, 'how the name begins' WHERE NOT EXISTS (SELECT 1 FROM unnest(words) w WHERE NOT EXISTS (
                        SELECT 1 FROM unnest(o.own) x WHERE starts_with(x, w)))
                    ORDER BY 1 DESC LIMIT 1) b
                WHERE c.trust = ANY (level) AND c.archived_at IS NULL AND NOT c.is_owner) m
            CROSS JOIN LATERAL (
                SELECT least(3, count(*)) * 8 AS score, 'fits ' || string_agg(w, ', ') AS why FROM unnest(clues) w
                WHERE strpos(contact_text(m.c), w) > 0 OR EXISTS (
                    SELECT 1 FROM ties_of(m.id, 50, 0) t
                    WHERE strpos(folded(concat_ws(' ', t.name, t.is_their, t.who_is_their)), w) > 0)) k
            ORDER BY score DESC, m.name, m.id LIMIT 10) r;
        EXIT WHEN found <> '[]';
    END LOOP;

    best := found -> 0;
    ahead := (best ->> 'score')::numeric - coalesce((found -> 1 ->> 'score')::numeric, 0);
    IF best IS NULL THEN
        RETURN '{"match": "none", "candidates": []}';
    ELSIF ahead < 8 THEN
        RETURN jsonb_build_object('match', 'ambiguous', 'candidates', found);
    END IF;
    RETURN jsonb_build_object(
        'match', CASE WHEN (best ->> 'score')::numeric >= 80 AND ahead >= 20 THEN 'exact' ELSE 'likely' END,
        'contact_id', best -> 'contact_id', 'entity_id', best -> 'entity_id', 'name', best -> 'name', 'candidates', found);
END $$;
