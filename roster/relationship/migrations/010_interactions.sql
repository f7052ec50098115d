-- What happened between the person and the people in their life: when they were in touch, what changed in a life, what
-- is worth noting.
--
-- The same thing said twice makes one row. That is seen to by the functions that write, under a lock on the contact, and
-- not by unique indexes, which would stand in the way when two contacts turn out to be one.

-- The contact that something is written about, and nobody else writes about it until the transaction ends.
CREATE FUNCTION writing_about(argument text, which uuid) RETURNS uuid
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    found uuid := contact_there(argument, which);
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(format('relationship %s %s', shared.tenant(), found), 0));
    RETURN found;
END $$;

-- True, or the sentence that there is no such contact. In SQL it stands where a condition stands.
CREATE FUNCTION asks_about(which uuid) RETURNS boolean LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM contact_there('contact_id', which);
    RETURN true;
END $$;

-- A word in the form that rows keep: small letters, digits and underscores. "Video call" is video_call.
CREATE FUNCTION as_word(argument text, given text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    word text := btrim(regexp_replace(lower(given), '[^[:alnum:]]+', '_', 'g'), '_');
BEGIN
    IF word = '' OR length(word) > 40 THEN
        RAISE EXCEPTION '% is "%". It must be one short word such as call or video_call.', argument, left(given, 60)
            USING ERRCODE = '22023';
    END IF;
    RETURN word;
END $$;

-- A moment that has been; null: none was given.
CREATE FUNCTION past_moment(argument text, given text) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    at timestamptz := shared.moment(argument, given);
BEGIN
    -- An hour is left for clocks that differ and for requests that waited.
    IF at > shared.clock() + interval '1 hour' THEN
        RAISE EXCEPTION '% % lies in the future. Here only what has happened is kept; for what is to come take '
            'reminder_create or task_create.', argument, to_json(date_trunc('second', at)) #>> '{}'
            USING ERRCODE = '22023';
    ELSIF at < '1900-01-01' THEN
        RAISE EXCEPTION '% lies before 1900. Check the year.', argument USING ERRCODE = '22023';
    END IF;
    RETURN at;
END $$;

CREATE TABLE interactions (
    id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_id       uuid NOT NULL REFERENCES contacts (id),
    group_id         uuid REFERENCES groups (id),
    type             text NOT NULL CHECK (type <> ''),
    direction        text CHECK (direction IN ('incoming', 'outgoing', 'mutual')),
    summary          text,
    occurred_at      timestamptz NOT NULL,
    duration_minutes integer CHECK (duration_minutes BETWEEN 1 AND 10080),
    metadata         jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    created_at       timestamptz NOT NULL DEFAULT shared.clock(),
    deleted_at       timestamptz
);
COMMENT ON COLUMN interactions.group_id IS 'The group that came together, where it was logged for a whole group.';
COMMENT ON COLUMN interactions.direction IS 'incoming: they got in touch; outgoing: the person did; mutual: both.';
SELECT shared.tenant_table('interactions');
CREATE INDEX interactions_of ON interactions (tenant_id, contact_id, occurred_at);

-- The contact's last contact is that of the latest interaction that counts. What a contact had before it is known from
-- no interaction and would be lost; nothing else writes it.
CREATE FUNCTION last_contact_follows() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF shared.undoing() THEN
        RETURN NULL;
    END IF;
    UPDATE contacts c SET last_contact_at = l.at
    FROM (SELECT w.id, (SELECT max(i.occurred_at) FROM interactions i
                        WHERE i.contact_id = w.id AND i.deleted_at IS NULL) AS at
          FROM (SELECT NEW.contact_id AS id UNION SELECT OLD.contact_id WHERE TG_OP = 'UPDATE') w) l
    WHERE c.id = l.id AND c.last_contact_at IS DISTINCT FROM l.at;
    RETURN NULL;
END $$;
CREATE TRIGGER last_contact AFTER INSERT OR UPDATE OF contact_id, occurred_at, deleted_at ON interactions
    FOR EACH ROW EXECUTE FUNCTION last_contact_follows();

-- Logs one interaction. The very same one at the same moment is kept once, and so is one that is said again within ten
-- minutes without a moment; what the first telling left open is filled in by the second.
CREATE FUNCTION interaction_put(for_contact uuid, in_group uuid, of_type text, which_way text, told text, at text,
                                minutes integer, more jsonb, OUT i interactions, OUT already boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    whose CONSTANT uuid := writing_about('contact_id', for_contact);
    kind CONSTANT text := as_word('type', of_type);
    what CONSTANT text := short_text('summary', told, 2000);
    given CONSTANT timestamptz := past_moment('occurred_at', at);
    extra CONSTANT jsonb := coalesce(more, '{}');
BEGIN
    IF jsonb_typeof(extra) <> 'object' OR length(extra::text) > 10000 THEN
        RAISE EXCEPTION 'metadata must be one object of at most 10000 characters, such as {"place": "Café Central"}.'
            USING ERRCODE = '22023';
    ELSIF minutes NOT BETWEEN 1 AND 10080 THEN
        RAISE EXCEPTION 'duration_minutes is %. It must be from 1 to 10080 (a week); leave it out if it is not known.',
            minutes USING ERRCODE = '22023';
    END IF;
    UPDATE interactions o
       SET summary = coalesce(o.summary, what), direction = coalesce(o.direction, which_way),
           duration_minutes = coalesce(o.duration_minutes, minutes), group_id = coalesce(o.group_id, in_group),
           metadata = o.metadata || extra
     WHERE o.id = (SELECT t.id FROM interactions t
                   WHERE t.contact_id = whose AND t.type = kind AND t.deleted_at IS NULL
                     AND CASE WHEN given IS NULL
                              THEN t.occurred_at > shared.clock() - interval '10 minutes'
                                   AND t.summary IS NOT DISTINCT FROM what
                              ELSE t.occurred_at = given AND coalesce(t.summary = what, true) END
                     AND coalesce(t.direction = which_way, true)
                     AND coalesce(t.duration_minutes = minutes, true)
                     AND coalesce(t.group_id = in_group, true)
                   ORDER BY t.summary IS NULL, t.occurred_at DESC, t.id LIMIT 1)
    RETURNING o.* INTO i;
    already := FOUND;
    IF NOT already THEN
        INSERT INTO interactions (contact_id, group_id, type, direction, summary, occurred_at, duration_minutes, metadata)
        VALUES (whose, in_group, kind, which_way, what, coalesce(given, shared.clock()), minutes, extra)
        RETURNING * INTO i;
    END IF;
END $$;

-- Logs the same interaction with every member of a group; members that are archived are named and left out.
CREATE FUNCTION interaction_put_group(for_group uuid, of_type text, which_way text, told text, at text, minutes integer,
                                      more jsonb)
RETURNS TABLE (group_id uuid, group_name text, logged integer, already_logged integer, interactions jsonb, skipped jsonb)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    m record;
    put record;
BEGIN
    group_id := group_there(for_group);
    SELECT g.name INTO group_name FROM groups g WHERE g.id = for_group;
    logged := 0;
    already_logged := 0;
    interactions := '[]';
    skipped := '[]';
    -- In one order whoever calls, so that two calls never wait for each other.
    FOR m IN SELECT c.id, c.name, c.archived_at FROM group_members b JOIN contacts c ON c.id = b.contact_id
             WHERE b.group_id = for_group AND b.deleted_at IS NULL ORDER BY c.id LOOP
        IF m.archived_at IS NOT NULL THEN
            skipped := skipped || jsonb_build_object('contact_id', m.id, 'contact_name', m.name, 'why', 'archived');
            CONTINUE;
        END IF;
        SELECT p.* INTO put FROM interaction_put(m.id, for_group, of_type, which_way, told, at, minutes, more) p;
        logged := logged + (NOT put.already)::int;
        already_logged := already_logged + put.already::int;
        interactions := interactions || jsonb_build_object('id', (put.i).id, 'contact_id', m.id, 'contact_name', m.name,
                                                           'already_logged', put.already);
    END LOOP;
    IF interactions = '[]' THEN
        RAISE EXCEPTION 'The group "%" has no member to log it for; group_add_member adds one.', group_name
            USING ERRCODE = '22023';
    END IF;
    RETURN NEXT;
END $$;

-- Takes an interaction out of the record (`gone`) or back into it. No row: there is none of this kind.
CREATE FUNCTION interaction_keep(which uuid, gone boolean, OUT i interactions)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE interactions o SET deleted_at = CASE WHEN gone THEN coalesce(o.deleted_at, shared.clock()) END
     WHERE o.id = which RETURNING o.* INTO i;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no interaction with that id; interaction_list shows them%.',
            CASE WHEN gone THEN '' ELSE ', with deleted set to true the deleted ones' END USING ERRCODE = '22023';
    END IF;
END $$;

-- The types of life events, by category.
CREATE FUNCTION life_event_kinds() RETURNS TABLE (category text, name text, label text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    VALUES
        ('family',    'engaged',          'Got engaged'),
        ('family',    'married',          'Married'),
        ('family',    'separated',        'Separated'),
        ('family',    'divorced',         'Divorced'),
        ('family',    'new_relationship', 'Is with somebody new'),
        ('family',    'expecting',        'Expects a child'),
        ('family',    'had_child',        'Had a child'),
        ('family',    'adopted',          'Adopted a child'),
        ('family',    'grandchild',       'Became a grandparent'),
        ('family',    'lost_someone',     'Lost somebody close'),
        ('family',    'died',             'Died'),
        ('family',    'got_pet',          'Got a pet'),
        ('family',    'lost_pet',         'Lost a pet'),
        ('work',      'new_job',          'Began a new job'),
        ('work',      'promotion',        'Was promoted'),
        ('work',      'left_job',         'Left a job'),
        ('work',      'started_business', 'Founded a business'),
        ('work',      'retired',          'Retired'),
        ('education', 'started_studies',  'Began to study'),
        ('education', 'graduated',        'Graduated'),
        ('home',      'moved',            'Moved'),
        ('home',      'bought_home',      'Bought a home'),
        ('home',      'travelled',        'Went on a great journey'),
        ('health',    'fell_ill',         'Fell ill'),
        ('health',    'accident',         'Had an accident'),
        ('health',    'surgery',          'Had an operation'),
        ('health',    'recovered',        'Got well again'),
        ('social',    'met',              'Met the person'),
        ('social',    'reconnected',      'Was found again'),
        ('social',    'fell_out',         'Fell out with the person'),
        ('social',    'achievement',      'Achieved something'),
        ('social',    'other',            'Something else')
$$;

-- A type of life event that a model named, as its name.
CREATE FUNCTION life_event_type(argument text, given text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    word CONSTANT text := btrim(regexp_replace(lower(given), '[^[:alnum:]]+', '_', 'g'), '_');
BEGIN
    IF given IS NULL OR EXISTS (SELECT 1 FROM life_event_kinds() k WHERE k.name = word) THEN
        RETURN word;
    END IF;
    RAISE EXCEPTION '% is "%". It must be one of %; take other, with a summary, for what fits none.', argument,
        left(given, 60), (SELECT string_agg(k.name, ', ') FROM life_event_kinds() k) USING ERRCODE = '22023';
END $$;

CREATE TABLE life_events (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    contact_id  uuid NOT NULL REFERENCES contacts (id),
    type_name   text NOT NULL,
    summary     text,
    description text,
    happened_at date,
    created_at  timestamptz NOT NULL DEFAULT shared.clock(),
    deleted_at  timestamptz
);
COMMENT ON COLUMN life_events.happened_at IS 'The day; null where it is not known.';
SELECT shared.tenant_table('life_events');
CREATE INDEX life_events_of ON life_events (tenant_id, contact_id, happened_at);

-- Logs a life event. Of one contact, one type, one day and one summary there is one.
CREATE FUNCTION life_event_put(for_contact uuid, of_type text, told text, at_length text, on_day text, at text,
                               OUT e life_events, OUT already boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    whose CONSTANT uuid := writing_about('contact_id', for_contact);
    kind CONSTANT text := life_event_type('type_name', of_type);
    what CONSTANT text := short_text('summary', told, 500);
    more CONSTANT text := short_text('description', at_length, 5000);
    -- The day of a moment in the owner's zone.
    of_moment CONSTANT date := past_moment('occurred_at', at)::date;
    day CONSTANT date := coalesce(shared.day('happened_at', on_day), of_moment);
BEGIN
    IF day <> of_moment THEN
        RAISE EXCEPTION 'happened_at is % and occurred_at lies on %. Give one of the two.', day, of_moment
            USING ERRCODE = '22023';
    ELSIF day > shared.today() THEN
        RAISE EXCEPTION 'happened_at % lies in the future. Log it once it has happened; for what is to come take '
            'date_add or reminder_create.', day USING ERRCODE = '22023';
    ELSIF day < '1850-01-01' THEN
        RAISE EXCEPTION 'happened_at lies before 1850. Check the year.' USING ERRCODE = '22023';
    ELSIF kind = 'other' AND what IS NULL THEN
        RAISE EXCEPTION 'An event of type other needs a summary that says what it was.' USING ERRCODE = '22023';
    END IF;
    UPDATE life_events o SET summary = coalesce(o.summary, what), description = coalesce(more, o.description)
     WHERE o.id = (SELECT t.id FROM life_events t
                   WHERE t.contact_id = whose AND t.type_name = kind AND t.deleted_at IS NULL
                     AND t.happened_at IS NOT DISTINCT FROM day
                     AND (what IS NULL OR t.summary IS NULL OR lower(t.summary) = lower(what))
                   ORDER BY t.summary IS NULL, t.created_at, t.id LIMIT 1)
    RETURNING o.* INTO e;
    already := FOUND;
    IF NOT already THEN
        INSERT INTO life_events (contact_id, type_name, summary, description, happened_at)
        VALUES (whose, kind, what, more, day) RETURNING * INTO e;
    END IF;
END $$;

-- Takes a life event out of the record (`gone`) or back into it.
CREATE FUNCTION life_event_keep(which uuid, gone boolean, OUT e life_events)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE life_events o SET deleted_at = CASE WHEN gone THEN coalesce(o.deleted_at, shared.clock()) END
     WHERE o.id = which RETURNING o.* INTO e;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no life event with that id; life_event_list shows them%.',
            CASE WHEN gone THEN '' ELSE ', with deleted set to true the deleted ones' END USING ERRCODE = '22023';
    END IF;
END $$;
