-- What people are to each other.
--
-- A tie says what contact_b is to contact_a, `type`, and what contact_a is to contact_b, `reverse`: Anna is the sister of
-- Ben, and Ben the sibling of Anna, brother once somebody says so. The words are a closed list, so that each has its
-- other side; `kind` is the word without man or woman.

CREATE FUNCTION relationship_words()
RETURNS TABLE (id uuid, "group" text, forward_label text, reverse_label text, kind text, also text[])
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT md5('relationship type ' || v.label)::uuid, v.grp, v.label, v.reverse, v.kind, string_to_array(v.also, ' ')
    FROM (VALUES
        ('love',   'partner',           'partner',           'partner',           'other_half'),
        ('love',   'girlfriend',        'partner',           'partner',           ''),
        ('love',   'boyfriend',         'partner',           'partner',           ''),
        ('love',   'fiance',            'fiance',            'fiance',            'fiancee betrothed'),
        ('love',   'spouse',            'spouse',            'spouse',            ''),
        ('love',   'wife',              'spouse',            'spouse',            ''),
        ('love',   'husband',           'spouse',            'spouse',            'hubby'),
        ('love',   'ex-partner',        'ex-partner',        'ex-partner',        'ex ex_husband ex_wife'),
        ('family', 'parent',            'child',             'parent',            ''),
        ('family', 'mother',            'child',             'parent',            'mum mom mama mommy mummy'),
        ('family', 'father',            'child',             'parent',            'dad papa daddy'),
        ('family', 'child',             'parent',            'child',             'kid'),
        ('family', 'daughter',          'parent',            'child',             ''),
        ('family', 'son',               'parent',            'child',             ''),
        ('family', 'sibling',           'sibling',           'sibling',           ''),
        ('family', 'sister',            'sibling',           'sibling',           'sis'),
        ('family', 'brother',           'sibling',           'sibling',           'bro'),
        ('family', 'grandparent',       'grandchild',        'grandparent',       ''),
        ('family', 'grandmother',       'grandchild',        'grandparent',       'grandma granny nana'),
        ('family', 'grandfather',       'grandchild',        'grandparent',       'grandpa granddad'),
        ('family', 'grandchild',        'grandparent',       'grandchild',        ''),
        ('family', 'granddaughter',     'grandparent',       'grandchild',        ''),
        ('family', 'grandson',          'grandparent',       'grandchild',        ''),
        ('family', 'aunt or uncle',     'niece or nephew',   'aunt or uncle',     ''),
        ('family', 'aunt',              'niece or nephew',   'aunt or uncle',     'auntie'),
        ('family', 'uncle',             'niece or nephew',   'aunt or uncle',     ''),
        ('family', 'niece or nephew',   'aunt or uncle',     'niece or nephew',   ''),
        ('family', 'niece',             'aunt or uncle',     'niece or nephew',   ''),
        ('family', 'nephew',            'aunt or uncle',     'niece or nephew',   ''),
        ('family', 'cousin',            'cousin',            'cousin',            ''),
        ('family', 'stepparent',        'stepchild',         'stepparent',        ''),
        ('family', 'stepmother',        'stepchild',         'stepparent',        'stepmum stepmom'),
        ('family', 'stepfather',        'stepchild',         'stepparent',        'stepdad'),
        ('family', 'stepchild',         'stepparent',        'stepchild',         'stepdaughter stepson'),
        ('family', 'stepsibling',       'stepsibling',       'stepsibling',       'stepsister stepbrother'),
        ('family', 'parent-in-law',     'child-in-law',      'parent-in-law',     ''),
        ('family', 'mother-in-law',     'child-in-law',      'parent-in-law',     ''),
        ('family', 'father-in-law',     'child-in-law',      'parent-in-law',     ''),
        ('family', 'child-in-law',      'parent-in-law',     'child-in-law',      ''),
        ('family', 'daughter-in-law',   'parent-in-law',     'child-in-law',      ''),
        ('family', 'son-in-law',        'parent-in-law',     'child-in-law',      ''),
        ('family', 'sibling-in-law',    'sibling-in-law',    'sibling-in-law',    ''),
        ('family', 'sister-in-law',     'sibling-in-law',    'sibling-in-law',    ''),
        ('family', 'brother-in-law',    'sibling-in-law',    'sibling-in-law',    ''),
        ('family', 'godparent',         'godchild',          'godparent',         ''),
        ('family', 'godmother',         'godchild',          'godparent',         ''),
        ('family', 'godfather',         'godchild',          'godparent',         ''),
        ('family', 'godchild',          'godparent',         'godchild',          'goddaughter godson'),
        ('friend', 'friend',            'friend',            'friend',            'mate buddy pal'),
        ('friend', 'best friend',       'best friend',       'best friend',       ''),
        ('friend', 'acquaintance',      'acquaintance',      'acquaintance',      ''),
        ('friend', 'neighbour',         'neighbour',         'neighbour',         'neighbor'),
        ('friend', 'flatmate',          'flatmate',          'flatmate',          'roommate housemate'),
        ('work',   'colleague',         'colleague',         'colleague',         'coworker co_worker workmate'),
        ('work',   'boss',              'report',            'boss',              'manager supervisor'),
        ('work',   'report',            'boss',              'report',            'employee'),
        ('work',   'business partner',  'business partner',  'business partner',  'cofounder co_founder'),
        ('work',   'mentor',            'mentee',            'mentor',            ''),
        ('work',   'mentee',            'mentor',            'mentee',            ''),
        ('work',   'client',            'provider',          'client',            'customer'),
        ('work',   'provider',          'client',            'provider',          'supplier contractor'),
        ('other',  'doctor',            'patient',           'doctor',            'physician gp dentist therapist'),
        ('other',  'patient',           'doctor',            'patient',           ''),
        ('other',  'teacher',           'pupil',             'teacher',           'tutor coach'),
        ('other',  'pupil',             'teacher',           'pupil',             'student'),
        ('other',  'landlord',          'tenant',            'landlord',          'landlady'),
        ('other',  'tenant',            'landlord',          'tenant',            ''),
        ('other',  'carer',             'cared for',         'carer',             'caregiver nanny babysitter'),
        ('other',  'cared for',         'carer',             'cared for',         '')
    ) v(grp, label, reverse, kind, also)
$$;

-- The word of the list that a word means: "My Sister", "sis" and "sister" are one. Null: it is none.
CREATE FUNCTION relationship_word(given text) RETURNS text LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT w.forward_label FROM relationship_words() w,
        regexp_replace(regexp_replace(folded(given), '[^[:alnum:]]+', '_', 'g'), '^(my|the|our)_|_$', '', 'g') AS said
    WHERE said = regexp_replace(w.forward_label, '[^[:alnum:]]+', '_', 'g') OR said = ANY (w.also)
    ORDER BY said = ANY (w.also) LIMIT 1
$$;

CREATE TABLE relationships (
    id                   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_a            uuid NOT NULL REFERENCES contacts (id),
    contact_b            uuid NOT NULL REFERENCES contacts (id),
    type                 text NOT NULL,
    reverse              text NOT NULL,
    relationship_type_id uuid NOT NULL,
    notes                text,
    created_at           timestamptz NOT NULL DEFAULT shared.clock(),
    deleted_at           timestamptz,
    CHECK (contact_a <> contact_b)
);
COMMENT ON COLUMN relationships.type IS 'What contact_b is to contact_a.';
COMMENT ON COLUMN relationships.reverse IS 'What contact_a is to contact_b.';
SELECT shared.tenant_table('relationships');
SELECT guarded_table('relationships');
CREATE UNIQUE INDEX relationships_once ON relationships (tenant_id, contact_a, contact_b, type) WHERE deleted_at IS NULL;
CREATE INDEX relationships_back ON relationships (tenant_id, contact_b) WHERE deleted_at IS NULL;

-- Those whom somebody is tied to, and what they are to them.
CREATE FUNCTION ties_of(which uuid, most integer, skip integer)
RETURNS TABLE (relationship_id uuid, contact_id uuid, name text, is_their text, who_is_their text, "group" text, notes text,
               contact_is_owner boolean)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT t.id, c.id, c.name, t.is_their, t.who_is_their, w."group", t.notes, c.is_owner
    FROM (SELECT r.id, r.contact_b AS other, r.type AS is_their, r.reverse AS who_is_their, r.notes
          FROM relationships r WHERE r.contact_a = which AND r.deleted_at IS NULL
          UNION ALL
          SELECT r.id, r.contact_a, r.reverse, r.type, r.notes
          FROM relationships r WHERE r.contact_b = which AND r.deleted_at IS NULL) t
    -- One by one: a join that reads all contacts would see those of strangers too.
    CROSS JOIN LATERAL (SELECT * FROM contacts o WHERE o.id = t.other AND o.archived_at IS NULL LIMIT 1) c
    LEFT JOIN relationship_words() w ON w.forward_label = t.is_their
    ORDER BY array_position(ARRAY['love', 'family', 'friend', 'work', 'other'], w."group"), c.name, t.is_their, t.id
    LIMIT most OFFSET skip
$$;

-- The contact of the person themself, made when it is first needed.
CREATE FUNCTION owner_contact() RETURNS uuid LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    me uuid;
    entity uuid;
    called text;
BEGIN
    SELECT c.id INTO me FROM contacts c WHERE c.is_owner;
    IF me IS NULL THEN
        SELECT n.id, n.name INTO entity, called FROM shared.entity_names() n WHERE n.roles ? 'owner' LIMIT 1;
        INSERT INTO contacts AS c (name, is_owner, listed, entity_id)
        VALUES (coalesce(called, 'Me'), true, false, entity)
        ON CONFLICT (tenant_id) WHERE is_owner DO UPDATE SET is_owner = true RETURNING c.id INTO me;
    END IF;
    RETURN me;
END $$;

-- Ties two people. The same tie said from the other side is one, and may say more exactly what the first one is.
CREATE FUNCTION relationship_add(from_contact uuid, to_contact uuid, said text, type_id uuid, more text)
RETURNS TABLE (id uuid, contact_a uuid, contact_b uuid, type text, reverse text, sentence text, notes text,
               already_there boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    w record;
    r relationships;
    on_record text;
    there boolean := false;
    remark CONSTANT text := short_text('notes', more, 2000);
BEGIN
    to_contact := contact_there('contact_b', to_contact);
    from_contact := CASE WHEN from_contact IS NULL THEN owner_contact() ELSE contact_there('contact_a', from_contact) END;
    IF from_contact = to_contact THEN
        RAISE EXCEPTION 'contact_a and contact_b are the same person. Give two.' USING ERRCODE = '22023';
    ELSIF (said IS NULL) = (type_id IS NULL) THEN
        RAISE EXCEPTION 'Give type, such as sister, or type_id, and not both.' USING ERRCODE = '22023';
    END IF;
    SELECT * INTO w FROM relationship_words() o WHERE o.id = type_id OR o.forward_label = relationship_word(said) LIMIT 1;
    IF w.id IS NULL THEN
        RAISE EXCEPTION '"%" is no type of relationship. relationship_types_list shows them; take the nearest, and say the '
            'rest in notes.', coalesce(said, type_id::text) USING ERRCODE = '22023';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('relationship.relationships ' || shared.tenant(), 0));

    -- The tie of this kind between the two, from this side or from the other.
    SELECT o.* INTO r FROM relationships o
    JOIN relationship_words() f ON f.forward_label = o.type JOIN relationship_words() b ON b.forward_label = o.reverse
    WHERE o.deleted_at IS NULL AND (o.contact_a = from_contact AND o.contact_b = to_contact AND f.kind = w.kind
          OR o.contact_a = to_contact AND o.contact_b = from_contact AND b.kind = w.kind)
    ORDER BY o.created_at LIMIT 1;
    on_record := CASE WHEN r.contact_a = from_contact THEN r.type ELSE r.reverse END;
    IF r.id IS NULL THEN
        INSERT INTO relationships AS o (contact_a, contact_b, type, reverse, relationship_type_id, notes)
        VALUES (from_contact, to_contact, w.forward_label, w.reverse_label, w.id, remark) RETURNING o.* INTO r;
    ELSIF w.forward_label <> w.kind AND on_record <> w.kind AND w.forward_label <> on_record THEN
        RAISE EXCEPTION '% is on record as % of % already, not as %. relationship_remove that first if it is wrong.',
            (SELECT c.name FROM contacts c WHERE c.id = to_contact), on_record,
            (SELECT c.name FROM contacts c WHERE c.id = from_contact), w.forward_label USING ERRCODE = '22023';
    ELSE
        there := true;
        UPDATE relationships o SET
            type = CASE WHEN r.contact_a = from_contact AND w.forward_label <> w.kind THEN w.forward_label ELSE o.type END,
            relationship_type_id = CASE WHEN r.contact_a = from_contact AND w.forward_label <> w.kind THEN w.id
                                        ELSE o.relationship_type_id END,
            reverse = CASE WHEN r.contact_b = from_contact AND w.forward_label <> w.kind THEN w.forward_label
                           ELSE o.reverse END,
            notes = coalesce(remark, o.notes)
        WHERE o.id = r.id RETURNING o.* INTO r;
    END IF;
    PERFORM contact_roles_follow(r.contact_a);
    PERFORM contact_roles_follow(r.contact_b);
    RETURN QUERY SELECT r.id, r.contact_a, r.contact_b, r.type, r.reverse,
        format('%s is the %s of %s.', b.name, r.type, CASE WHEN a.is_owner THEN 'the person themself' ELSE a.name END),
        r.notes, there FROM contacts a, contacts b WHERE a.id = r.contact_a AND b.id = r.contact_b;
END $$;

-- Unties two people, or ties them again as they were.
CREATE FUNCTION relationship_set_deleted(one uuid, other uuid, only_type text, gone boolean)
RETURNS TABLE (id uuid, contact_a uuid, contact_b uuid, type text, reverse text, deleted_at timestamptz)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    word CONSTANT text := relationship_word(only_type);
    last timestamptz;
BEGIN
    one := CASE WHEN one IS NULL THEN owner_contact() ELSE contact_there('contact_a', one) END;
    other := contact_there('contact_b', other);
    SELECT max(r.deleted_at) INTO last FROM relationships r
    WHERE (r.contact_a, r.contact_b) IN ((one, other), (other, one)) AND NOT gone;
    -- Of what was removed more than once, the last removal is the one that is taken back.
    RETURN QUERY UPDATE relationships r SET deleted_at = CASE WHEN gone THEN shared.clock() END
    WHERE (r.contact_a, r.contact_b) IN ((one, other), (other, one))
      AND (only_type IS NULL OR word IN (r.type, r.reverse))
      AND CASE WHEN gone THEN r.deleted_at IS NULL ELSE r.deleted_at = last AND NOT EXISTS (
            SELECT 1 FROM relationships n WHERE n.contact_a = r.contact_a AND n.contact_b = r.contact_b
            AND n.type = r.type AND n.deleted_at IS NULL) END
    RETURNING r.id, r.contact_a, r.contact_b, r.type, r.reverse, r.deleted_at;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'Between these two there is no such tie to %; relationship_list shows what there is.',
            CASE WHEN gone THEN 'remove' ELSE 'bring back' END USING ERRCODE = '22023';
    END IF;
    PERFORM contact_roles_follow(one);
    PERFORM contact_roles_follow(other);
END $$;

-- Who is tied to somebody, over how many ties, the nearest first. `along`: only over these words. Outgoing are ties that
-- were noted as what others are to them, incoming the other way round.
CREATE FUNCTION entity_neighbors(which uuid, depth integer, along text[], direction text, most integer, skip integer)
RETURNS TABLE (contact_id uuid, entity_id uuid, name text, steps integer, way text)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    start uuid;
    stray text;
BEGIN
    SELECT c.id INTO start FROM contacts c
    WHERE c.archived_at IS NULL AND (c.id = which OR c.entity_id = which OR c.entity_id = shared.entity_standing(which))
    ORDER BY c.id = which DESC LIMIT 1;
    IF start IS NULL THEN
        RAISE EXCEPTION 'No contact stands for that entity; contact_search or contact_resolve gives entity_id and id.'
            USING ERRCODE = '22023';
    END IF;
    SELECT a INTO stray FROM unnest(along) a WHERE relationship_word(a) IS NULL LIMIT 1;
    IF stray IS NOT NULL THEN
        RAISE EXCEPTION '"%" is no type of relationship; relationship_types_list shows them.', stray USING ERRCODE = '22023';
    END IF;
    RETURN QUERY
    WITH RECURSIVE edges AS (
        SELECT r.contact_a AS one, r.contact_b AS other, r.type AS word FROM relationships r
        WHERE r.deleted_at IS NULL AND direction IN ('outgoing', 'both')
        UNION ALL
        SELECT r.contact_b, r.contact_a, r.reverse FROM relationships r
        WHERE r.deleted_at IS NULL AND direction IN ('incoming', 'both')
    ), walk AS (
        SELECT start AS id, 0 AS steps, ARRAY[start] AS seen, ''::text AS way
        UNION ALL
        SELECT e.other, w.steps + 1, w.seen || e.other, ltrim(w.way || ' > ' || e.word, ' >')
        FROM walk w JOIN edges e ON e.one = w.id JOIN contacts c ON c.id = e.other AND c.archived_at IS NULL
        WHERE w.steps < depth AND NOT e.other = ANY (w.seen)
          AND (along IS NULL OR e.word IN (SELECT relationship_word(a) FROM unnest(along) a))
    )
    SELECT c.id, c.entity_id, c.name, n.steps, n.way
    FROM (SELECT DISTINCT ON (w.id) w.id, w.steps, w.way FROM walk w WHERE w.steps > 0 ORDER BY w.id, w.steps, w.way) n
    JOIN contacts c ON c.id = n.id
    ORDER BY n.steps, c.name_key, c.id LIMIT most OFFSET skip;
END $$;
