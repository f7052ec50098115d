-- Contacts as address books have them: what a card says, and a contact made of one. The text of a vCard itself is read
-- and written by the module `vcard`, which calls these two.

-- The cards of one contact, or of all that are listed, as objects.
CREATE FUNCTION contact_cards(which uuid) RETURNS SETOF jsonb LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    one uuid := CASE WHEN which IS NOT NULL THEN contact_there('contact_id', which) END;
BEGIN
    RETURN QUERY
    SELECT jsonb_strip_nulls(jsonb_build_object(
        'uid', c.id, 'name', c.name, 'first_name', c.first_name, 'last_name', c.last_name, 'nickname', c.nickname,
        'company', c.company, 'job_title', c.job_title, 'pronouns', c.pronouns,
        'infos', (SELECT jsonb_agg(jsonb_build_object('type', i.type, 'value', i.value, 'label', i.label,
                                                      'is_primary', i.is_primary) ORDER BY i.is_primary DESC, i.created_at, i.id)
                    FROM contact_info i WHERE i.contact_id = c.id AND i.deleted_at IS NULL),
        'addresses', (SELECT jsonb_agg(address_shown(a) ORDER BY a.is_current DESC, a.created_at, a.id)
                        FROM addresses a WHERE a.contact_id = c.id AND a.deleted_at IS NULL),
        'dates', (SELECT jsonb_agg(jsonb_build_object('label', d.label, 'month', d.month, 'day', d.day, 'year', d.year)
                                   ORDER BY d.created_at, d.id)
                    FROM important_dates d WHERE d.contact_id = c.id AND d.deleted_at IS NULL)))
    FROM contacts c
    WHERE c.merged_into IS NULL AND CASE WHEN one IS NULL THEN c.archived_at IS NULL AND c.listed ELSE c.id = one END
    ORDER BY c.name_key, c.id;
END $$;

-- A contact of a card. Somebody who is there already gets what is new; what can't be taken in is said, and the rest of the
-- card is kept.
CREATE FUNCTION contact_from_card(card jsonb) RETURNS jsonb LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    made jsonb;
    which uuid;
    part jsonb;
    left_out text[] := '{}';
    facts CONSTANT jsonb := card - '{infos,addresses,dates,uid}'::text[];
BEGIN
    BEGIN
        made := contact_create(jsonb_build_object('name', card -> 'name'), false);
        which := (made ->> 'id')::uuid;
        IF (made ->> 'already_there')::boolean THEN
            -- Only what is not known yet.
            SELECT coalesce(jsonb_object_agg(f.key, f.value), '{}') INTO part
              FROM jsonb_each(facts) f WHERE f.key <> 'name' AND made -> f.key IS NULL;
            SELECT left_out || coalesce(array_agg(format('%s: it says "%s", "%s" is on record', f.key, f.value #>> '{}', made ->> f.key)), '{}')
              INTO left_out FROM jsonb_each(facts) f
             WHERE f.key <> 'name' AND made -> f.key IS NOT NULL AND made -> f.key <> f.value;
        ELSE
            part := facts - 'name';
        END IF;
        IF part <> '{}' THEN
            PERFORM contact_update(which, part);
        END IF;
    EXCEPTION WHEN invalid_parameter_value THEN
        RETURN jsonb_build_object('name', card -> 'name', 'status', 'left_out', 'left_out', jsonb_build_array(SQLERRM));
    END;
    FOR part IN SELECT * FROM jsonb_array_elements(coalesce(card -> 'infos', '[]')) LOOP
        BEGIN
            PERFORM contact_info_add(which, part ->> 'type', part ->> 'value', part ->> 'label', (part ->> 'is_primary')::boolean);
        EXCEPTION WHEN invalid_parameter_value OR check_violation THEN
            left_out := left_out || format('%s %s: %s', part ->> 'type', part ->> 'value', SQLERRM);
        END;
    END LOOP;
    FOR part IN SELECT * FROM jsonb_array_elements(coalesce(card -> 'addresses', '[]')) LOOP
        BEGIN
            PERFORM address_add(which, part);
        EXCEPTION WHEN invalid_parameter_value OR check_violation OR not_null_violation THEN
            left_out := left_out || format('address %s: %s', part ->> 'line_1', SQLERRM);
        END;
    END LOOP;
    FOR part IN SELECT * FROM jsonb_array_elements(coalesce(card -> 'dates', '[]')) LOOP
        BEGIN
            PERFORM date_add(which, part ->> 'label', (part ->> 'month')::int, (part ->> 'day')::int, (part ->> 'year')::int);
        EXCEPTION WHEN invalid_parameter_value OR check_violation THEN
            left_out := left_out || format('%s: %s', part ->> 'label', SQLERRM);
        END;
    END LOOP;
    RETURN jsonb_build_object('contact_id', which, 'name', made -> 'name', 'left_out', to_jsonb(left_out),
        'status', CASE WHEN (made ->> 'already_there')::boolean THEN 'already_there' ELSE 'made' END);
END $$;
