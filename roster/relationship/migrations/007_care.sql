-- How near somebody is, and how often the person wants to hear of them.

-- Says in which circle somebody stands, or that it is not said. A circle is only named by how many it holds; one that is
-- fuller than that is told, not refused.
CREATE FUNCTION dunbar_tier_set(which uuid, tier integer)
RETURNS TABLE (contact_id uuid, name text, dunbar_tier integer, previous integer, in_tier integer, over_full boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    was integer;
    n integer;
BEGIN
    which := contact_there('contact_id', which);
    SELECT c.dunbar_tier INTO was FROM contacts c WHERE c.id = which AND NOT c.is_owner FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'This is the person themself, around whom the circles are.' USING ERRCODE = '22023';
    END IF;
    UPDATE contacts c SET dunbar_tier = tier WHERE c.id = which;
    SELECT count(*) INTO n FROM contacts c WHERE c.dunbar_tier = tier AND c.archived_at IS NULL;
    RETURN QUERY SELECT c.id, c.name, c.dunbar_tier, was, CASE WHEN tier IS NOT NULL THEN n END, coalesce(n > tier, false)
                 FROM contacts c WHERE c.id = which;
END $$;

-- After how many days without contact the person wants to be told; null: not at all. The days run from the last contact,
-- or from here where there was none.
CREATE FUNCTION stay_in_touch_set(which uuid, days integer)
RETURNS TABLE (contact_id uuid, name text, stay_in_touch_days integer, previous integer, last_contact_at timestamptz,
               due_on date)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    was contacts;
BEGIN
    which := contact_there('contact_id', which);
    SELECT c.* INTO was FROM contacts c WHERE c.id = which FOR UPDATE;
    IF was.is_owner THEN
        RAISE EXCEPTION 'This is the person themself; name somebody else to stay in touch with.' USING ERRCODE = '22023';
    END IF;
    UPDATE contacts c SET stay_in_touch_days = days,
        stay_in_touch_from = CASE WHEN days IS NOT NULL THEN coalesce(c.stay_in_touch_from, shared.clock()) END
    WHERE c.id = which;
    RETURN QUERY SELECT c.id, c.name, c.stay_in_touch_days, was.stay_in_touch_days, c.last_contact_at,
                        in_touch_due(c) FROM contacts c WHERE c.id = which;
END $$;

-- The last day on which it is not yet too long since the last contact; null: nobody counts.
CREATE FUNCTION in_touch_due(c contacts) RETURNS date LANGUAGE sql STABLE AS $$
    SELECT (coalesce(c.last_contact_at, c.stay_in_touch_from, c.created_at)
            AT TIME ZONE current_setting('TimeZone'))::date + c.stay_in_touch_days
$$;

-- With whom it is too long, the longest first.
CREATE FUNCTION contacts_overdue(of_group uuid, most integer, skip integer)
RETURNS TABLE (contact_id uuid, name text, stay_in_touch_days integer, last_contact_at timestamptz, days_since integer,
               days_overdue integer, dunbar_tier integer)
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    PERFORM group_there(of_group);
    RETURN QUERY
    SELECT c.id, c.name, c.stay_in_touch_days, c.last_contact_at,
           CASE WHEN c.last_contact_at IS NOT NULL
                THEN shared.today() - (c.last_contact_at AT TIME ZONE current_setting('TimeZone'))::date END,
           shared.today() - in_touch_due(c), c.dunbar_tier
    FROM contacts c
    WHERE c.archived_at IS NULL AND c.stay_in_touch_days IS NOT NULL AND in_touch_due(c) < shared.today()
      AND (of_group IS NULL OR EXISTS (SELECT 1 FROM group_members m WHERE m.group_id = of_group
                                       AND m.contact_id = c.id AND m.deleted_at IS NULL))
    ORDER BY shared.today() - in_touch_due(c) DESC, c.name_key, c.id LIMIT most OFFSET skip;
END $$;
