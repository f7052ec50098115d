-- Whose is what: the daemon's role owns the house's own tables and functions, a role of its own what the files of a roster
-- make. No file of a roster runs with the rights of the daemon's role, and no row of a roster's table is changed with them.
-- Runs as the owner role with search_path = shared.

-- The role that owns what a roster's files make in a butler's schema, and the file that is being applied with it:
-- {"chain", "version", "name", "sha256", "sql", "begun"}.
-- `seal`: the SHA-256 of what the daemon shows to functions that are for its own statements.
ALTER TABLE butler_roles ADD COLUMN owner text UNIQUE, ADD COLUMN applying jsonb, ADD COLUMN seal bytea;

-- The last statement of each file of a roster, in the file's own transaction: it goes on record, its rows are kept before
-- they change, and the butler's role may use its tables. What is recorded the daemon wrote before the file began, so a
-- file that calls this by itself forges nothing; it only fails.
CREATE FUNCTION migration_applied() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    r butler_roles;
    whose oid;
    t record;
BEGIN
    SELECT * INTO r FROM butler_roles b WHERE b.owner = session_user FOR UPDATE;
    IF r.applying IS NULL THEN
        RAISE EXCEPTION 'no file is being applied' USING ERRCODE = '42501';
    END IF;
    SELECT o.oid INTO whose FROM pg_roles o WHERE o.rolname = r.owner;
    EXECUTE format('INSERT INTO %1$I.schema_migrations
                        (chain, version, name, sha256, duration_ms, sql, ordinal, after_shared)
                    SELECT $1 ->> ''chain'', ($1 ->> ''version'')::int, $1 ->> ''name'', decode($1 ->> ''sha256'', ''hex''),
                           (extract(epoch FROM clock_timestamp() - ($1 ->> ''begun'')::timestamptz) * 1000)::bigint,
                           $1 ->> ''sql'', coalesce(max(ordinal), 0) + 1,
                           (SELECT coalesce(max(ordinal), 0) FROM shared.schema_migrations)
                    FROM %1$I.schema_migrations', r.schema) USING r.applying;
    PERFORM keep_rows(r.schema, (SELECT coalesce(array_agg(c.oid), '{}') FROM pg_class c
                                 WHERE c.relnamespace = to_regnamespace(quote_ident(r.schema)) AND c.relowner <> whose));
    FOR t IN SELECT c.relname, c.relkind FROM pg_class c
             WHERE c.relnamespace = to_regnamespace(quote_ident(r.schema)) AND c.relowner = whose
               AND c.relkind IN ('r', 'p', 'v', 'S')
    LOOP
        EXECUTE format(CASE t.relkind WHEN 'S' THEN 'GRANT USAGE ON SEQUENCE %I.%I TO %I'
                       ELSE 'GRANT SELECT, INSERT, UPDATE, DELETE ON %I.%I TO %I' END, r.schema, t.relname, r.role);
    END LOOP;
    UPDATE butler_roles b SET applying = NULL WHERE b.butler = r.butler;
END $$;

-- Runs a statement that gives one document. Where the table is a roster's, it runs as the role that owns the table, in a
-- function of that role, in which the server refuses to become anybody else: what triggers, checks and types of the
-- roster do then, they do with that role's rights. The function is gone before anybody else could see it.
CREATE FUNCTION as_owner(of_table oid, statement text, one text[] DEFAULT NULL, two text[] DEFAULT NULL,
                         at tid DEFAULT NULL) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    whose text;
    home text;
    hand text;
    answer jsonb;
BEGIN
    SELECT r.owner, r.schema INTO whose, home FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_roles o ON o.oid = c.relowner JOIN shared.butler_roles r ON r.owner = o.rolname
     WHERE c.oid = of_table;
    IF whose IS NULL THEN
        EXECUTE statement INTO answer USING one, two, at;
        RETURN answer;
    END IF;
    hand := format('%I.%I(text, text[], text[], tid)', home, 'butlerd_hand_' || pg_catalog.pg_current_xact_id()::text);
    EXECUTE format('CREATE FUNCTION %I.%I (statement text, one text[], two text[], at tid) RETURNS jsonb LANGUAGE plpgsql
                    SECURITY DEFINER SET search_path = %I, shared, public AS $hand$
                    DECLARE
                        answer jsonb;
                    BEGIN
                        EXECUTE statement INTO answer USING one, two, at;
                        SET CONSTRAINTS ALL IMMEDIATE;
                        RETURN answer;
                    END $hand$', home, 'butlerd_hand_' || pg_catalog.pg_current_xact_id()::text, home);
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', hand);
    EXECUTE format('ALTER FUNCTION %s OWNER TO %I', hand, whose);
    EXECUTE format('SELECT %I.%I ($1, $2, $3, $4)', home, 'butlerd_hand_' || pg_catalog.pg_current_xact_id()::text)
       INTO answer USING statement, one, two, at;
    EXECUTE format('DROP FUNCTION %s', hand);
    RETURN answer;
END $$;
REVOKE ALL ON FUNCTION as_owner(oid, text, text[], text[], tid) FROM PUBLIC;

-- Puts the rows of this tenant back as they were before a transaction. Each must be as the transaction left it: one that
-- something newer stands on stays, and with it all the others. Returns how many rows were put back. A refusal has
-- SQLSTATE 22023, a sentence, and in its detail the table and the number of the newer change, as JSON.
CREATE OR REPLACE FUNCTION undo(of_txid xid8, of_tx_at timestamptz) RETURNS integer LANGUAGE plpgsql
SET search_path = shared, pg_temp AS $$
DECLARE
    c shared.row_changes;
    place text;
    which text;
    columns text;
    change text;
    present jsonb;
    newer bigint;
    done integer := 0;
BEGIN
    PERFORM set_config('butlerd.undoing', 'on', true);
    FOR c IN SELECT * FROM shared.row_changes r
             WHERE r.txid = of_txid AND r.tx_at = of_tx_at AND r.tenant_id = shared.tenant() ORDER BY r.id DESC
    LOOP
        place := format('%I.%I', c.schema, c.table_name);
        IF to_regclass(place) IS NULL THEN
            RAISE EXCEPTION 'The table % is gone.', place USING ERRCODE = '22023';
        END IF;
        SELECT string_agg(format('to_jsonb(t.%I) IS NOT DISTINCT FROM %L::jsonb', k.name, k.value), ' AND ') INTO which
          FROM jsonb_each(coalesce(c.key, c.after, c.before)) k (name, value);
        -- By the key's own type, so that its index serves.
        IF c.key IS NOT NULL THEN
            SELECT string_agg(format('t.%I = %L', k.name, k.value), ' AND ') INTO which
              FROM jsonb_each_text(c.key) k (name, value);
        END IF;
        present := shared.as_owner(place::regclass, format('SELECT to_jsonb(t) FROM %s t WHERE %s FOR UPDATE', place, which));
        -- Columns that were added since say nothing of this row.
        IF (SELECT jsonb_object_agg(k, present -> k) FROM jsonb_object_keys(c.after) k) IS DISTINCT FROM c.after THEN
            SELECT max(r.id) INTO newer FROM shared.row_changes r
             WHERE r.schema = c.schema AND r.table_name = c.table_name AND r.key = c.key AND r.id > c.id
               AND r.tenant_id = c.tenant_id AND (r.txid, r.tx_at) <> (of_txid, of_tx_at);
            RAISE EXCEPTION 'A row of % was changed since.', place
                USING ERRCODE = '22023', DETAIL = jsonb_build_object('table', place, 'change', newer);
        END IF;
        IF c.before IS NULL THEN
            change := format('DELETE FROM %s t WHERE %s', place, which);
        ELSE
            SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns
              FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = to_regclass(place) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
               AND c.before ? a.attname
               -- A number that the server gives can't be changed, so it is as it was.
               AND (c.after IS NULL OR a.attidentity <> 'a');
            IF c.after IS NULL THEN
                change := format('INSERT INTO %1$s (%2$s) OVERRIDING SYSTEM VALUE
                                  SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, %3$L)', place, columns, c.before);
            ELSE
                change := format('UPDATE %1$s t SET (%2$s) = (SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, %4$L)) WHERE %3$s',
                                 place, columns, which, c.before);
            END IF;
        END IF;
        PERFORM shared.as_owner(place::regclass, format('WITH done AS (%s RETURNING 1) SELECT to_jsonb(count(*)) FROM done', change));
        done := done + 1;
    END LOOP;
    RETURN done;
END $$;

-- Takes these words out of every text of the tenant in all tables of the household. Who is who stays (contacts, and the
-- names of entities), as do columns that butlerd itself goes by: what is called so there is another's to change.
-- `cleaned`: of each table how many places; `kept`: where it stands still.
CREATE OR REPLACE FUNCTION scrub(needles text[], OUT cleaned jsonb, OUT kept jsonb) LANGUAGE plpgsql
SET search_path = shared, pg_temp AS $$
DECLARE
    believed text := shared.trust();
    -- As they are, and as JSON has them, which may stand in a text, and in JSON again.
    forms text[];
    begins text[];
    col record;
    how text;
    found text;
    spot record;
    n bigint;
    stays bigint;
BEGIN
    cleaned := '{}';
    kept := '{}';
    WITH RECURSIVE form AS (
        SELECT w AS f, 0 AS depth FROM unnest(needles) w WHERE w <> ''
        UNION
        SELECT substr(to_json(f)::text, 2, length(to_json(f)::text) - 2), depth + 1 FROM form WHERE depth < 3)
    SELECT array_agg(f ORDER BY length(f) DESC, f) INTO forms FROM (SELECT DISTINCT f FROM form) all_forms;
    IF forms IS NULL THEN
        RETURN;
    END IF;
    begins := ARRAY(SELECT DISTINCT left(f, 40) FROM unnest(forms) f);
    PERFORM set_config('butlerd.trust', 'system', true);
    PERFORM set_config('butlerd.memory_event', '', true);
    PERFORM set_config('butlerd.scrubbing', 'on', true);
    FOR col IN
        SELECT s.nspname AS home, c.relname AS rel, a.attname AS name, t.typname AS type, c.oid AS id,
               EXISTS (SELECT 1 FROM pg_attribute e WHERE e.attrelid = c.oid AND e.attname = 'embedding'
                       AND NOT e.attisdropped) AS embedded,
               s.nspname = 'shared' AND (c.relname IN ('contacts', 'contact_identities')
                   OR c.relname = 'entities' AND a.attname IN ('name', 'aliases')) AS stays,
               a.attname IN ('trust', 'timezone', 'cron', 'job_name', 'channel', 'endpoint', 'lane', 'model', 'runtime',
                   'tool', 'tool_name', 'butler', 'caller', 'origin', 'kind', 'direction', 'state', 'node', 'claimed_by') AS own
        FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
        JOIN pg_type t ON t.oid = a.atttypid
        WHERE (s.nspname = 'shared' OR s.nspname IN (SELECT r.schema FROM shared.butler_roles r))
          AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
          AND a.attgenerated = '' AND t.typname IN ('text', 'varchar', 'bpchar', 'jsonb', 'json', '_text', '_varchar')
          AND a.attname <> 'tenant_id' AND (s.nspname, c.relname) <> ('shared', 'secrets')
          AND EXISTS (SELECT 1 FROM pg_attribute e WHERE e.attrelid = c.oid AND e.attname = 'tenant_id')
        ORDER BY 1, 2, a.attnum
    LOOP
        how := CASE WHEN col.type = 'jsonb' THEN format('shared.scrubbed_json(t.%I, $1)', col.name)
                    WHEN col.type = 'json' THEN format('shared.scrubbed_json(t.%I::jsonb, $1)::json', col.name)
                    WHEN col.type IN ('_text', '_varchar') THEN format('shared.scrubbed_list(t.%I::text[], $1)', col.name)
                    ELSE format('shared.scrubbed(t.%I::text, $1)', col.name) END;
        -- Looking is cheap and replacing is not: in this order, which a plain AND does not keep.
        found := format('t.tenant_id = shared.tenant()
            AND CASE WHEN EXISTS (SELECT 1 FROM unnest($2) b WHERE strpos(t.%1$I::text, b) > 0)
                THEN (%2$s)::text IS DISTINCT FROM t.%1$I::text ELSE false END', col.name, how);
        IF col.own THEN
            -- Its whole value is one of butlerd's words, whatever else is called so.
            found := found || format(' AND NOT t.%I::text = ANY($1)', col.name);
        END IF;
        n := 0;
        stays := 0;
        IF col.stays THEN
            EXECUTE format('SELECT count(*) FROM %I.%I t WHERE %s', col.home, col.rel, found) INTO stays USING forms, begins;
        ELSE
            how := format('UPDATE %I.%I t SET %I = %s', col.home, col.rel, col.name, how)
                || CASE WHEN col.embedded THEN ', embedding = NULL' ELSE '' END;
            BEGIN
                n := shared.as_owner(col.id, format('WITH done AS (%s WHERE %s RETURNING 1) SELECT to_jsonb(count(*)) FROM done',
                                                    how, found), forms, begins)::bigint;
            EXCEPTION WHEN integrity_constraint_violation OR data_exception OR raise_exception OR insufficient_privilege THEN
                -- Row by row, then, so that one that can't be changed keeps back no other.
                FOR spot IN EXECUTE format('SELECT t.ctid AS at FROM %I.%I t WHERE %s', col.home, col.rel, found)
                    USING forms, begins
                LOOP
                    BEGIN
                        PERFORM shared.as_owner(col.id, format('WITH done AS (%s WHERE t.ctid = $3 AND $2 IS NOT NULL RETURNING 1)
                                                                SELECT to_jsonb(count(*)) FROM done', how), forms, begins, spot.at);
                        n := n + 1;
                    EXCEPTION WHEN integrity_constraint_violation OR data_exception OR raise_exception
                                   OR insufficient_privilege THEN
                        stays := stays + 1;
                    END;
                END LOOP;
            END;
        END IF;
        found := col.home || '.' || col.rel;
        IF n > 0 THEN
            cleaned := cleaned || jsonb_build_object(found, coalesce((cleaned ->> found)::bigint, 0) + n);
        END IF;
        IF stays > 0 THEN
            kept := kept || jsonb_build_object(found, coalesce((kept ->> found)::bigint, 0) + stays);
        END IF;
    END LOOP;
    -- A memory of which nothing else is left is gone as well.
    FOR col IN SELECT s.nspname AS home, c.relname AS rel FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
               WHERE s.nspname IN (SELECT r.schema FROM shared.butler_roles r)
                 AND c.relname IN ('memory_episodes', 'memory_facts', 'memory_rules')
    LOOP
        EXECUTE format('UPDATE %I.%I SET forgotten_at = coalesce(forgotten_at, shared.clock()), purged_at = shared.clock()
            WHERE tenant_id = shared.tenant() AND content = ''[purged]'' AND purged_at IS NULL', col.home, col.rel);
    END LOOP;
    PERFORM set_config('butlerd.scrubbing', '', true);
    PERFORM set_config('butlerd.trust', believed, true);
END $$;

-- The less trusted of two.
CREATE FUNCTION least_trust(one text, other text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN one IS NULL OR other IS NULL OR 'stranger' IN (one, other) THEN 'stranger'
                WHEN 'known' IN (one, other) THEN 'known' ELSE one END
$$;

-- Which butler asks, if it is the daemon that asks for it: a roster's SQL has the butler's login, but not its seal, which
-- the daemon hands over as a bound parameter. Raises otherwise. So what sends or answers can't be called past the tools,
-- where recipients, the egress gate and the request are looked at.
CREATE FUNCTION by_daemon(seal text) RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text;
BEGIN
    SELECT r.butler INTO who FROM butler_roles r
    WHERE r.role = session_user AND r.seal = sha256(convert_to(by_daemon.seal, 'UTF8'));
    IF who IS NULL THEN
        RAISE EXCEPTION 'this is for a butler''s own tools; call notify' USING ERRCODE = '42501';
    END IF;
    RETURN who;
END $$;

DROP FUNCTION say(uuid, uuid, text, uuid, text, text, text, text, jsonb);
-- A butler's answer. Which butler it is, its login says. The same of one session is one: its number comes again.
CREATE FUNCTION say(request uuid, segment uuid, lane text, session uuid, kind text, message text, emoji text, trust text,
                    context jsonb, seal text)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text := shared.by_daemon(seal);
    number bigint;
BEGIN
    INSERT INTO shared.replies (request_id, segment_id, lane, butler, session_id, kind, message, emoji, trust,
                                context)
    VALUES (request, segment, lane, who, session, kind, message, emoji, shared.least_trust(trust, shared.trust()), context)
    ON CONFLICT DO NOTHING RETURNING seq INTO number;
    IF number IS NULL THEN
        SELECT r.seq INTO number FROM shared.replies r
        WHERE r.session_id = say.session AND r.request_id = say.request AND r.kind = say.kind AND NOT r.auto
          AND coalesce(r.message, r.emoji) = coalesce(say.message, say.emoji);
    END IF;
    RETURN number;
END $$;

-- Takes in what a butler is to deal with, once. Whose words it is and whom an answer goes to, the daemon says; it is
-- believed no more than the transaction.
CREATE FUNCTION accept_route(id uuid, request uuid, kind text, route jsonb, trust text, seal text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text := shared.by_daemon(seal);
BEGIN
    EXECUTE format('INSERT INTO %I.route_inbox (id, request_id, kind, route, trust) VALUES ($1, $2, $3, $4, $5)
                    ON CONFLICT (id) DO NOTHING', (SELECT r.schema FROM butler_roles r WHERE r.butler = who))
    USING id, request, kind, route, shared.least_trust(trust, shared.trust());
END $$;

DROP FUNCTION queue_delivery(jsonb);
-- What a butler wants said. Which butler it is, its login says. It waits, or waits for its time; nothing else.
CREATE FUNCTION queue_delivery(wanted jsonb, seal text) RETURNS TABLE (delivery uuid, delivery_state text, fresh boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text := shared.by_daemon(seal);
BEGIN
    IF wanted ->> 'intent' <> 'send' OR coalesce(wanted ->> 'state', 'pending') NOT IN ('pending', 'deferred')
       OR coalesce(wanted ->> 'kind', 'message') NOT IN ('message', 'reminder') THEN
        RAISE EXCEPTION 'a butler sends what waits' USING ERRCODE = '42501';
    END IF;
    RETURN QUERY SELECT * FROM shared.queue_delivery_as(who, shared.tenant(),
                                                        wanted - '{trust,conversation,reply_seq}'::text[]);
END $$;

DROP FUNCTION hand_mail(text, jsonb, text, jsonb);
-- Gives a butler a session about a note, in the call's own transaction. How far the note is believed, its request says;
-- whose it is, the transaction. Returns the row's id in the butler's route inbox; null: there is no such butler.
CREATE FUNCTION hand_mail(to_butler text, request jsonb, prompt text, data jsonb, seal text) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    IF shared.by_daemon(seal) <> 'switchboard' THEN
        RAISE EXCEPTION 'only the switchboard hands mail to butlers' USING ERRCODE = '42501';
    END IF;
    RETURN shared.hand_back(to_butler, request || jsonb_build_object('tenant_id', shared.tenant(), 'trust',
        shared.least_trust(request ->> 'trust', shared.trust())),
        false, prompt, data);
END $$;

-- What a session was shown only ever lowers its row, whoever updates it: its trust falls, its audience narrows, and when it
-- was exposed stays.
CREATE FUNCTION session_keeps_label() RETURNS trigger LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
BEGIN
    IF shared.least_trust(OLD.trust, NEW.trust) = OLD.trust THEN
        NEW.trust := OLD.trust;
    END IF;
    NEW.audience := shared.common_audience(OLD.audience, NEW.audience);
    NEW.exposed_at := coalesce(OLD.exposed_at, NEW.exposed_at);
    RETURN NEW;
END $$;
