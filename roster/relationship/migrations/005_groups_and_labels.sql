-- Groups that people belong to together, and labels that the person sorts them by.

CREATE TABLE groups (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name       text NOT NULL CHECK (name <> ''),
    name_key   text NOT NULL GENERATED ALWAYS AS (lower(name)) STORED,
    type       text,
    created_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('groups');
SELECT guarded_table('groups');
CREATE UNIQUE INDEX groups_by_name ON groups (tenant_id, name_key);

CREATE TABLE group_members (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    group_id   uuid NOT NULL REFERENCES groups (id),
    contact_id uuid NOT NULL REFERENCES contacts (id),
    role       text,
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    deleted_at timestamptz
);
SELECT shared.tenant_table('group_members');
SELECT guarded_table('group_members');
CREATE UNIQUE INDEX group_members_once ON group_members (tenant_id, group_id, contact_id);
CREATE INDEX group_members_of ON group_members (tenant_id, contact_id);

-- The group that a model named; it is refused where there is none.
CREATE FUNCTION group_there(which uuid) RETURNS uuid LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF which IS NOT NULL AND NOT EXISTS (SELECT 1 FROM groups g WHERE g.id = which) THEN
        RAISE EXCEPTION 'There is no group with that id; group_list shows them.' USING ERRCODE = '22023';
    END IF;
    RETURN which;
END $$;

-- Makes a group. One of the name that is there already stays as it is.
CREATE FUNCTION group_create(called text, of_type text)
RETURNS TABLE (id uuid, name text, type text, already_there boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    n CONSTANT text := short_text('name', called, 200);
    t CONSTANT text := lower(short_text('type', of_type, 50));
    g groups;
    made boolean := false;
BEGIN
    IF n IS NULL THEN
        RAISE EXCEPTION 'name is empty: a group needs one, such as Chess club.' USING ERRCODE = '22023';
    END IF;
    INSERT INTO groups AS o (name, type) VALUES (n, t) ON CONFLICT (tenant_id, name_key) DO NOTHING
    RETURNING o.* INTO g;
    made := g.id IS NOT NULL;
    IF NOT made THEN
        SELECT * INTO g FROM groups o WHERE o.name_key = lower(n) FOR UPDATE;
        IF g.type <> t THEN
            RAISE EXCEPTION 'There is a group called % already, of type % (id %). Use it, or give the new one another name.',
                g.name, g.type, g.id USING ERRCODE = '22023';
        ELSIF g.type IS NULL AND t IS NOT NULL THEN
            UPDATE groups o SET type = t WHERE o.id = g.id RETURNING o.* INTO g;
        END IF;
    END IF;
    RETURN QUERY SELECT g.id, g.name, g.type, NOT made;
END $$;

-- Puts somebody into a group. Who is in it already stays, with a new role where one is given.
CREATE FUNCTION group_add_member(into_group uuid, which uuid, as_role text)
RETURNS TABLE (group_id uuid, contact_id uuid, name text, role text, already_there boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    m group_members;
    there boolean;
BEGIN
    into_group := group_there(into_group);
    which := contact_there('contact_id', which);
    SELECT EXISTS (SELECT 1 FROM group_members o
                   WHERE o.group_id = into_group AND o.contact_id = which AND o.deleted_at IS NULL) INTO there;
    INSERT INTO group_members AS o (group_id, contact_id, role)
    VALUES (into_group, which, short_text('role', as_role, 100))
    ON CONFLICT (tenant_id, group_id, contact_id)
    DO UPDATE SET role = coalesce(excluded.role, o.role), deleted_at = NULL
    RETURNING o.* INTO m;
    RETURN QUERY SELECT m.group_id, m.contact_id, c.name, m.role, there FROM contacts c WHERE c.id = m.contact_id;
END $$;

-- Takes somebody out of a group.
CREATE FUNCTION group_remove_member(from_group uuid, which uuid)
RETURNS TABLE (group_id uuid, contact_id uuid, role text, deleted_at timestamptz)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    from_group := group_there(from_group);
    which := contact_there('contact_id', which);
    IF NOT EXISTS (SELECT 1 FROM group_members o WHERE o.group_id = from_group AND o.contact_id = which) THEN
        RAISE EXCEPTION 'This contact is not in that group; group_members shows who is.' USING ERRCODE = '22023';
    END IF;
    RETURN QUERY UPDATE group_members o SET deleted_at = coalesce(o.deleted_at, shared.clock())
    WHERE o.group_id = from_group AND o.contact_id = which
    RETURNING o.group_id, o.contact_id, o.role, o.deleted_at;
END $$;

CREATE TABLE labels (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name       text NOT NULL CHECK (name <> ''),
    name_key   text NOT NULL GENERATED ALWAYS AS (lower(name)) STORED,
    color      text CHECK (color ~ '^#[0-9a-f]{6}$'),
    created_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('labels');
SELECT guarded_table('labels');
CREATE UNIQUE INDEX labels_by_name ON labels (tenant_id, name_key);

CREATE TABLE contact_labels (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    label_id   uuid NOT NULL REFERENCES labels (id),
    contact_id uuid NOT NULL REFERENCES contacts (id),
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    deleted_at timestamptz
);
SELECT shared.tenant_table('contact_labels');
SELECT guarded_table('contact_labels');
CREATE UNIQUE INDEX contact_labels_once ON contact_labels (tenant_id, label_id, contact_id);
CREATE INDEX contact_labels_of ON contact_labels (tenant_id, contact_id);

-- Makes a label; of one that is there already it sets the colour, where one is given.
CREATE FUNCTION label_create(called text, coloured text)
RETURNS TABLE (id uuid, name text, color text, already_there boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    n CONSTANT text := short_text('name', called, 100);
    c CONSTANT text := lower(nullif(btrim(coloured), ''));
    there boolean;
BEGIN
    IF n IS NULL THEN
        RAISE EXCEPTION 'name is empty: a label needs one, such as university.' USING ERRCODE = '22023';
    ELSIF c !~ '^#[0-9a-f]{6}$' THEN
        RAISE EXCEPTION 'color is "%". It must be a colour such as #3366cc, or left out.', coloured USING ERRCODE = '22023';
    END IF;
    SELECT EXISTS (SELECT 1 FROM labels o WHERE o.name_key = lower(n)) INTO there;
    RETURN QUERY INSERT INTO labels AS o (name, color) VALUES (n, c)
    ON CONFLICT (tenant_id, name_key) DO UPDATE SET color = coalesce(excluded.color, o.color)
    RETURNING o.id, o.name, o.color, there;
END $$;

-- The label that a model named; it is refused where there is none.
CREATE FUNCTION label_there(which uuid) RETURNS uuid LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM labels l WHERE l.id = which) THEN
        RAISE EXCEPTION 'There is no label with that id; label_list shows them, label_create makes one.'
            USING ERRCODE = '22023';
    END IF;
    RETURN which;
END $$;

-- Gives somebody a label, or takes it off.
CREATE FUNCTION label_assign(label uuid, which uuid, off boolean)
RETURNS TABLE (label_id uuid, contact_id uuid, label_name text, contact_name text, assigned boolean, changed boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    was boolean;
BEGIN
    label := label_there(label);
    which := contact_there('contact_id', which);
    SELECT EXISTS (SELECT 1 FROM contact_labels o
                   WHERE o.label_id = label AND o.contact_id = which AND o.deleted_at IS NULL) INTO was;
    IF NOT off THEN
        INSERT INTO contact_labels AS o (label_id, contact_id) VALUES (label, which)
        ON CONFLICT (tenant_id, label_id, contact_id) DO UPDATE SET deleted_at = NULL;
    ELSIF was THEN
        UPDATE contact_labels o SET deleted_at = shared.clock() WHERE o.label_id = label AND o.contact_id = which;
    ELSE
        RAISE EXCEPTION 'This contact does not have that label; contact_get shows which it has.' USING ERRCODE = '22023';
    END IF;
    RETURN QUERY SELECT l.id, c.id, l.name, c.name, NOT off, was = off FROM labels l, contacts c
                 WHERE l.id = label AND c.id = which;
END $$;

-- The label that has a name; it is refused where there is none.
CREATE FUNCTION label_named(called text) RETURNS uuid LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
DECLARE
    found uuid;
BEGIN
    SELECT l.id INTO found FROM labels l WHERE l.name_key = lower(btrim(called));
    IF found IS NULL THEN
        RAISE EXCEPTION 'There is no label called "%"; label_list shows them.', called USING ERRCODE = '22023';
    END IF;
    RETURN found;
END $$;

-- Groups and their members, or those of one contact.
CREATE FUNCTION groups_of(which uuid, most integer, skip integer)
RETURNS TABLE (id uuid, name text, type text, members integer) LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    which := contact_there('contact_id', which);
    RETURN QUERY
    SELECT g.id, g.name, g.type, count(c.id)::int
    FROM groups g LEFT JOIN group_members m ON m.group_id = g.id AND m.deleted_at IS NULL
    LEFT JOIN contacts c ON c.id = m.contact_id AND c.archived_at IS NULL
    GROUP BY g.id HAVING which IS NULL OR bool_or(c.id = which)
    ORDER BY folded(g.name), g.id LIMIT most OFFSET skip;
END $$;

-- Labels and how many have them, or those of one contact.
CREATE FUNCTION labels_of(which uuid, most integer, skip integer)
RETURNS TABLE (id uuid, name text, color text, contacts integer) LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    which := contact_there('contact_id', which);
    RETURN QUERY
    SELECT l.id, l.name, l.color, count(c.id)::int
    FROM labels l LEFT JOIN contact_labels m ON m.label_id = l.id AND m.deleted_at IS NULL
    LEFT JOIN contacts c ON c.id = m.contact_id AND c.archived_at IS NULL
    GROUP BY l.id HAVING which IS NULL OR bool_or(c.id = which)
    ORDER BY folded(l.name), l.id LIMIT most OFFSET skip;
END $$;
