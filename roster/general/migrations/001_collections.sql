-- Collections of items: lists, notes, plans, whatever has no record of its own. An item is a JSON object with tags;
-- what its keys are the person's wishes say, except for two that mean the same everywhere: `due`, a day or a moment,
-- and `done`, true or false. The tools are called item_…: entity_… are memory's, for people, organizations and places.

CREATE TABLE collections (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name        text NOT NULL CHECK (name <> ''),
    description text,
    created_at  timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at  timestamptz,
    deleted_at  timestamptz
);
SELECT shared.tenant_table('collections');
-- collection_create relies on this: a name stands for one collection, however it is written.
CREATE UNIQUE INDEX collections_one_name ON collections (tenant_id, lower(name)) WHERE deleted_at IS NULL;

CREATE TABLE items (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    collection_id uuid NOT NULL REFERENCES collections (id),
    data          jsonb NOT NULL CHECK (jsonb_typeof(data) = 'object'),
    tags          text[] NOT NULL DEFAULT '{}',
    revisions     jsonb NOT NULL DEFAULT '[]',
    created_at    timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at    timestamptz,
    deleted_at    timestamptz
);
SELECT shared.tenant_table('items');
COMMENT ON COLUMN items.revisions IS 'What it said before each change, oldest first; the last 20.';
-- item_create relies on this: the same thing told twice is one item. It serves what reads one collection too.
CREATE UNIQUE INDEX items_one ON items (tenant_id, collection_id, md5(data::text)) WHERE deleted_at IS NULL;

-- The live collection of this name. A missing one is refused with what there is.
CREATE FUNCTION collection_named(wanted text) RETURNS collections
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    c     collections;
    names text;
BEGIN
    SELECT * INTO c FROM collections WHERE lower(name) = lower(btrim(wanted)) AND deleted_at IS NULL;
    IF c.id IS NULL THEN
        SELECT string_agg(x.name, ', ') INTO names
          FROM (SELECT name FROM collections WHERE deleted_at IS NULL ORDER BY created_at DESC LIMIT 20) x;
        RAISE EXCEPTION 'There is no collection "%". %', wanted,
            coalesce('There are: ' || names || '. collection_create makes a new one.',
                     'There is none yet; collection_create makes one.') USING ERRCODE = '22023';
    END IF;
    RETURN c;
END
$$;

-- The collection with this id, deleted or not.
CREATE FUNCTION collection_of(wanted uuid) RETURNS collections
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    c collections;
BEGIN
    SELECT * INTO c FROM collections WHERE id = wanted;
    IF c.id IS NULL THEN
        RAISE EXCEPTION 'There is no collection with that id; collection_list shows them.' USING ERRCODE = '22023';
    END IF;
    RETURN c;
END
$$;

-- The item with this id, in a collection that is live; itself it may be deleted, where that is wanted.
CREATE FUNCTION item_of(wanted uuid, deleted_too boolean) RETURNS items
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    i items;
    c collections;
BEGIN
    SELECT * INTO i FROM items WHERE id = wanted;
    IF i.id IS NULL THEN
        RAISE EXCEPTION 'There is no item with that id; item_search finds them.' USING ERRCODE = '22023';
    END IF;
    SELECT * INTO c FROM collections WHERE id = i.collection_id;
    IF c.deleted_at IS NOT NULL THEN
        RAISE EXCEPTION 'The collection "%" of that item was deleted. collection_restore with its id (%) brings it '
            'back.', c.name, c.id USING ERRCODE = '22023';
    ELSIF i.deleted_at IS NOT NULL AND NOT deleted_too THEN
        RAISE EXCEPTION 'That item was deleted. item_restore brings it back.' USING ERRCODE = '22023';
    END IF;
    RETURN i;
END
$$;

-- Tags as they are kept: lower case, each once, in order.
CREATE FUNCTION clean_tags(given text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    kept CONSTANT text[] := ARRAY(SELECT DISTINCT lower(btrim(t)) FROM unnest(given) t WHERE btrim(t) <> '' ORDER BY 1);
BEGIN
    IF cardinality(kept) > 20 OR EXISTS (SELECT FROM unnest(kept) t WHERE length(t) > 50) THEN
        RAISE EXCEPTION 'An item has up to 20 tags of up to 50 characters. Longer text belongs into data.'
            USING ERRCODE = '22023';
    END IF;
    RETURN kept;
END
$$;

-- The data of an item, checked.
CREATE FUNCTION checked_data(data jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF jsonb_typeof(data) IS DISTINCT FROM 'object' OR data = '{}' THEN
        RAISE EXCEPTION 'data must be an object with at least one key, such as {"title": "Blue paint", "amount": 2}.'
            USING ERRCODE = '22023';
    ELSIF length(data::text) > 32768 THEN
        RAISE EXCEPTION 'data has % characters; an item holds up to 32768. Split it into several items.',
            length(data::text) USING ERRCODE = '22023';
    ELSIF data ? 'done' AND jsonb_typeof(data -> 'done') <> 'boolean' THEN
        RAISE EXCEPTION 'data.done must be true or false.' USING ERRCODE = '22023';
    END IF;
    PERFORM shared.moment('data.due', data ->> 'due');
    RETURN data;
END
$$;

-- One object over another: objects are merged key by key, null takes a key away, everything else replaces.
CREATE FUNCTION deep_merge(base jsonb, patch jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    merged jsonb := CASE WHEN jsonb_typeof(base) = 'object' THEN base ELSE '{}' END;
    part   record;
BEGIN
    IF jsonb_typeof(patch) <> 'object' THEN
        RETURN patch;
    END IF;
    FOR part IN SELECT key, value FROM jsonb_each(patch) LOOP
        merged := CASE WHEN part.value = 'null' THEN merged - part.key
                       ELSE merged || jsonb_build_object(part.key, deep_merge(merged -> part.key, part.value)) END;
    END LOOP;
    RETURN merged;
END
$$;

-- Everything that an item says, in lower case, to look for words in.
CREATE FUNCTION item_words(data jsonb, tags text[]) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$
    SELECT lower(coalesce(string_agg(v #>> '{}', ' '), '') || ' ' || array_to_string(tags, ' '))
      FROM jsonb_path_query(data, '$.**') v WHERE jsonb_typeof(v) NOT IN ('object', 'array')
$$;

-- The day on which an item is due, by the owner's calendar.
CREATE FUNCTION item_due(data jsonb) RETURNS date LANGUAGE sql STABLE AS
$$ SELECT shared.moment('due', data ->> 'due')::date $$;

CREATE FUNCTION item_add(collection text, given jsonb, given_tags text[])
RETURNS TABLE (id uuid, collection_name text, data jsonb, tags text[], created_at timestamptz, already_there boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    c CONSTANT collections := collection_named(collection);
BEGIN
    RETURN QUERY
    INSERT INTO items AS i (collection_id, data, tags)
    VALUES (c.id, checked_data(jsonb_strip_nulls(given)), clean_tags(given_tags))
    ON CONFLICT (tenant_id, collection_id, md5(i.data::text)) WHERE deleted_at IS NULL
    DO UPDATE SET tags = clean_tags(i.tags || excluded.tags)
    RETURNING i.id, c.name, i.data, i.tags, i.created_at, i.xmax <> 0;
END
$$;

CREATE FUNCTION item_change(wanted uuid, patch jsonb, new_tags text[])
RETURNS TABLE (id uuid, collection_name text, data jsonb, tags text[], updated_at timestamptz, previous jsonb)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    old  items := item_of(wanted, false);
    twin uuid;
    new  items;
BEGIN
    -- Two changes at once: the second is made to what the first one left.
    SELECT * INTO old FROM items x WHERE x.id = wanted FOR UPDATE;
    new := old;
    new.data := checked_data(deep_merge(old.data, patch));
    new.tags := CASE WHEN new_tags IS NULL THEN old.tags ELSE clean_tags(new_tags) END;
    IF (new.data, new.tags) IS DISTINCT FROM (old.data, old.tags) THEN
        SELECT x.id INTO twin FROM items x
         WHERE x.collection_id = old.collection_id AND x.deleted_at IS NULL AND x.id <> old.id AND x.data = new.data;
        IF twin IS NOT NULL THEN
            RAISE EXCEPTION 'An item that says just that is in the collection already, as %. Nothing changed.', twin
                USING ERRCODE = '22023';
        END IF;
        UPDATE items x
           SET data = new.data, tags = new.tags, updated_at = shared.clock(),
               revisions = jsonb_path_query_array(x.revisions, '$[last - 18 to last]')
                           || jsonb_build_object('data', old.data, 'tags', old.tags, 'until', shared.clock())
         WHERE x.id = old.id;
    END IF;
    RETURN QUERY
    SELECT x.id, c.name, x.data, x.tags, x.updated_at, jsonb_build_object('data', old.data, 'tags', old.tags)
      FROM items x JOIN collections c ON c.id = x.collection_id WHERE x.id = wanted;
END
$$;
