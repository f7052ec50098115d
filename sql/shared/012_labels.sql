-- Labels: each row carries how far it is believed (trust) and who may learn it besides the household (audience). What a
-- transaction reads lowers its own label, and what it writes carries that label on. docs/security.md has the rules.
-- Runs as the owner role with search_path = shared.

-- How somebody outside is named in an audience: `channel:identity`, an identity as base::text::plain_identity compares it.
CREATE FUNCTION principal(channel text, identity text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT channel || ':' || lower(btrim(coalesce(substring(identity FROM '<([^<]*)>$'), identity))) $$;

-- Who hears what is said to somebody: a group as a whole, whoever claims an identity that nobody has proven, else the
-- person. `context`: the RequestContext that is answered.
CREATE FUNCTION heard_by(channel text, target text, context jsonb) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN context @> '{"group": true}' AND context ->> 'source_thread_identity' IS NOT NULL
                THEN channel || '#' || octet_length(context ->> 'source_endpoint_identity') || ':'
                     || (context ->> 'source_endpoint_identity') || ':' || (context ->> 'source_thread_identity')
                WHEN context @> '{"unauthenticated": true}'
                THEN channel || '?' || substr(shared.principal(channel, target), length(channel) + 2)
                ELSE shared.principal(channel, target) END
$$;

-- Who may learn what this transaction was shown. Nobody said: the household alone.
CREATE FUNCTION audience() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(nullif(current_setting('butlerd.audience', true), ''), '{}')::text[] $$;

-- Who may learn what was made out of both: those who may learn each. `*` is anybody.
CREATE FUNCTION common_audience(one text[], other text[]) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN '*' = ANY (one) THEN other WHEN '*' = ANY (other) THEN one
                ELSE ARRAY(SELECT unnest(one) INTERSECT SELECT unnest(other) ORDER BY 1) END
$$;

-- Called by the policy of every table for a row that may lower the transaction's label: from here on the transaction is
-- believed no more than that row, and nobody may learn what it was shown who may not learn the row. The daemon is told over
-- the connection, at a level that no setting silences, and lowers the session whose call this is.
CREATE FUNCTION saw(row_trust text, row_audience text[]) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    before_trust text := shared.trust();
    before_audience text[] := shared.audience();
    now_trust text := CASE WHEN row_trust IN ('owner', 'system') OR before_trust = 'stranger' THEN before_trust
                           WHEN row_trust = 'known' THEN 'known' ELSE 'stranger' END;
    now_audience text[] := shared.common_audience(before_audience, row_audience);
BEGIN
    IF now_trust = before_trust AND now_audience @> before_audience THEN
        -- It is as low already, and the daemon knows it: by this row's forerunner, or because it began so.
        RETURN true;
    END IF;
    PERFORM set_config('butlerd.trust', now_trust, true), set_config('butlerd.audience', now_audience::text, true);
    RAISE INFO 'butlerd.saw % %', now_trust, array_to_json(now_audience) USING ERRCODE = 'BD001';
    RETURN true;
END $$;
CREATE OR REPLACE FUNCTION saw(row_trust text) RETURNS boolean LANGUAGE sql VOLATILE AS
$$ SELECT shared.saw(row_trust, '{}') $$;

-- A row that is changed is believed no more than the transaction that changes it, and those alone may learn it who may
-- learn what that transaction was shown. What a more trusted hand wrote, it may not change at all. The house's own work
-- (butlerd.house) is left alone: it moves rows on and puts nothing that it reads into others.
CREATE FUNCTION keep_label() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    trust text := shared.trust();
BEGIN
    IF trust IN ('known', 'stranger') THEN
        IF OLD.trust IN ('owner', 'system') OR OLD.trust = 'known' AND trust = 'stranger' THEN
            RAISE EXCEPTION 'a more trusted hand wrote this row of %', TG_TABLE_NAME USING ERRCODE = 'BD002';
        END IF;
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        IF NEW.trust <> 'stranger' THEN
            NEW.trust := trust;
        END IF;
    END IF;
    NEW.audience := shared.common_audience(NEW.audience, shared.audience());
    RETURN NEW;
END $$;

-- Gives a table of the current schema, which has a tenant and a trust, its audience and the policy and triggers that keep
-- labels. Does nothing but the same again where it was done.
CREATE FUNCTION label_table(table_name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %I ADD COLUMN IF NOT EXISTS audience text[] NOT NULL DEFAULT ''{}''', table_name);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN audience
                    SET DEFAULT coalesce(nullif(current_setting(''butlerd.audience'', true), ''''), ''{}'')::text[]', table_name);
    -- The common case first: a row of the house's own, read by a transaction that tells nobody outside.
    EXECUTE format('ALTER POLICY tenant ON %I
                    USING (tenant_id = current_setting(''butlerd.tenant'', true)
                           AND (trust IN (''owner'', ''system'') AND current_setting(''butlerd.audience'', true) = ''{}''
                                OR shared.saw(trust, audience)))
                    WITH CHECK (tenant_id = current_setting(''butlerd.tenant'', true)
                                AND (current_setting(''butlerd.house'', true) = ''on''
                                     OR CASE current_setting(''butlerd.trust'', true)
                                        WHEN ''stranger'' THEN trust = ''stranger''
                                        WHEN ''known'' THEN trust IN (''known'', ''stranger'')
                                        ELSE true END
                                        AND (audience = ''{}'' OR shared.trust() IN (''owner'', ''system'')
                                             OR shared.common_audience(audience, shared.audience()) = audience)))', table_name);
    EXECUTE format('DROP TRIGGER IF EXISTS lower_trust ON %I', table_name);
    EXECUTE format('DROP TRIGGER IF EXISTS label_kept ON %I', table_name);
    EXECUTE format('DROP TRIGGER IF EXISTS label_guards ON %I', table_name);
    EXECUTE format('CREATE TRIGGER label_kept BEFORE UPDATE ON %I FOR EACH ROW
                    WHEN ((current_setting(''butlerd.trust'', true) IN (''known'', ''stranger'') OR NEW.audience <> ''{}'')
                          AND current_setting(''butlerd.house'', true) IS DISTINCT FROM ''on'')
                    EXECUTE FUNCTION shared.keep_label()', table_name);
    EXECUTE format('CREATE TRIGGER label_guards BEFORE DELETE ON %I FOR EACH ROW
                    WHEN (current_setting(''butlerd.trust'', true) IN (''known'', ''stranger'')
                          AND current_setting(''butlerd.house'', true) IS DISTINCT FROM ''on'')
                    EXECUTE FUNCTION shared.keep_label()', table_name);
END $$;

-- The same for all tables of the current schema that have no audience yet.
CREATE FUNCTION label_tables() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT c.relname FROM pg_catalog.pg_class c
        JOIN pg_catalog.pg_policy p ON p.polrelid = c.oid AND p.polname = 'tenant'
        JOIN pg_catalog.pg_attribute t ON t.attrelid = c.oid AND t.attname = 'trust' AND NOT t.attisdropped
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
          AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a
                          WHERE a.attrelid = c.oid AND a.attname = 'audience' AND NOT a.attisdropped)
        ORDER BY c.relname
    LOOP
        PERFORM shared.label_table(name);
    END LOOP;
END $$;

-- Gives a table of the current schema its tenant column, the label of its rows, and its row-level policy. With a key, its
-- primary key as well: the tenant and these columns.
CREATE OR REPLACE FUNCTION tenant_table(table_name text, VARIADIC key text[] DEFAULT '{}') RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    -- Two steps: a default given with the column would be computed at once, when no tenant is set.
    EXECUTE format('ALTER TABLE %I ADD COLUMN IF NOT EXISTS tenant_id text NOT NULL CHECK (tenant_id <> ''''),
                    ADD COLUMN IF NOT EXISTS trust text NOT NULL DEFAULT ''system''
                        CHECK (trust IN (''owner'', ''system'', ''known'', ''stranger''))', table_name);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN tenant_id SET DEFAULT current_setting(''butlerd.tenant''),
                    ALTER COLUMN trust SET DEFAULT coalesce(nullif(current_setting(''butlerd.trust'', true), ''''), ''system'')',
                   table_name);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', table_name);
    EXECUTE format('CREATE POLICY tenant ON %I', table_name);
    PERFORM shared.label_table(table_name);
    IF cardinality(key) > 0 THEN
        EXECUTE format('ALTER TABLE %I ADD PRIMARY KEY (tenant_id, %s)', table_name,
                       (SELECT string_agg(quote_ident(k), ', ' ORDER BY n) FROM unnest(key) WITH ORDINALITY c (k, n)));
    END IF;
END $$;

SELECT label_tables();
-- These show a butler some rows only, whatever their labels are.
ALTER POLICY tenant ON conversation_readers
    USING (tenant_id = current_setting('butlerd.tenant', true) AND butler = (SELECT shared.asking_butler()));
ALTER POLICY tenant ON conversation
    USING (tenant_id = current_setting('butlerd.tenant', true) AND CASE
           WHEN CASE (SELECT shared.asking_butler())
                WHEN 'switchboard' THEN true
                WHEN 'messenger' THEN direction = 'out'
                ELSE EXISTS (SELECT 1 FROM shared.conversation_readers r
                             WHERE (r.entry, r.direction) = (conversation.entry, conversation.direction)) END
           THEN trust IN ('owner', 'system') AND current_setting('butlerd.audience', true) = '{}'
                OR shared.saw(trust, audience)
           ELSE false END);

-- Who heard what was said before labels were kept: its sender, or the one it went to. What is not known to have been heard
-- stays the household's own.
UPDATE conversation SET audience = ARRAY[principal(channel, person)]
WHERE direction = 'out' OR trust IN ('known', 'stranger');

CREATE OR REPLACE FUNCTION conversation_accepted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = shared, pg_temp AS $$
BEGIN
    INSERT INTO conversation (entry, direction, kind, channel, endpoint, lane, thread, person, person_name, contact_id,
                              text, attachments, request_id, said_at, tenant_id, trust, audience)
    SELECT m.request_id, 'in', 'message', m.channel, m.endpoint, m.lane, m.thread, m.sender,
           coalesce(m.envelope #>> '{sender,display_name}', m.sender), m.contact_id, m.body, m.attachments, m.request_id,
           m.received_at, m.tenant_id, m.trust, m.audience
    FROM accepted m ORDER BY m.seq;
    RETURN NULL;
END $$;

-- What is delivered has been heard by the one it went to, besides those who may learn what it was made of.
CREATE OR REPLACE FUNCTION conversation_delivered() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = shared, pg_temp AS $$
DECLARE
    answer replies;
BEGIN
    SELECT * INTO answer FROM replies r WHERE r.request_id = NEW.request_id AND r.seq = NEW.reply_seq;
    INSERT INTO conversation (entry, direction, kind, channel, endpoint, lane, thread, person, contact_id, butler, auto,
                              subject, text, emoji, request_id, session_id, reply_seq, said_at, tenant_id, trust, audience)
    VALUES (NEW.id, 'out', coalesce(answer.kind, CASE WHEN NEW.intent = 'send' THEN NEW.kind ELSE NEW.intent END),
            NEW.channel, NEW.endpoint, coalesce(NEW.conversation, NEW.lane), NEW.thread, NEW.target,
            (SELECT i.contact_id FROM contact_identities i WHERE i.tenant_id = NEW.tenant_id AND i.channel = NEW.channel
             AND i.identity = lower(NEW.target)),
            NEW.origin, coalesce(answer.auto, false), NEW.subject, NEW.message, NEW.emoji, NEW.request_id, NEW.session_id,
            NEW.reply_seq, coalesce(NEW.settled_at, shared.clock()), NEW.tenant_id, NEW.trust,
            NEW.audience || heard_by(NEW.channel, NEW.target, coalesce(answer.context, '{}')))
    ON CONFLICT DO NOTHING;
    INSERT INTO conversation_readers (entry, direction, butler, tenant_id, trust)
    SELECT NEW.id, 'out', r.butler, NEW.tenant_id, 'system' FROM butler_roles r WHERE r.butler = NEW.origin
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

-- What a butler may see of the outbox, as the tables' policy has it.
CREATE FUNCTION shows(row_trust text, row_audience text[]) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT row_trust IN ('owner', 'system') AND current_setting('butlerd.audience', true) = '{}'
           OR shared.saw(row_trust, row_audience)
$$;
CREATE OR REPLACE FUNCTION deliveries() RETURNS TABLE (
    id uuid, seq bigint, origin text, request_id uuid, session_id uuid, kind text, intent text, channel text, target text,
    thread text, subject text, message text, emoji text, priority text, state text, reason text, last_error text,
    due_at timestamptz, attempts integer, receipt jsonb, created_at timestamptz, settled_at timestamptz, failures integer,
    available_at timestamptz, discarded jsonb)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
    SELECT o.id, o.seq, o.origin, o.request_id, o.session_id, o.kind, o.intent, o.channel, o.target, o.thread, o.subject,
           o.message, o.emoji, o.priority, o.state, o.reason, o.last_error, o.due_at, o.attempts, o.receipt, o.created_at,
           o.settled_at, o.failures, o.available_at, o.discarded
    FROM shared.outbox o JOIN shared.butler_roles r ON r.role = session_user
    WHERE o.tenant_id = shared.tenant() AND (o.origin = r.butler OR r.butler = 'messenger')
      AND shared.shows(o.trust, o.audience)
$$;
CREATE OR REPLACE FUNCTION delivery_attempts() RETURNS TABLE (
    delivery_id uuid, n integer, begun_at timestamptz, ended_at timestamptz, outcome text, detail text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = shared, pg_temp AS $$
    SELECT a.outbox_id, a.n, a.begun_at, a.ended_at, a.outcome, a.detail
    FROM shared.outbox_attempts a JOIN shared.outbox o ON o.id = a.outbox_id
         JOIN shared.butler_roles r ON r.role = session_user
    WHERE o.tenant_id = shared.tenant() AND (o.origin = r.butler OR r.butler = 'messenger')
      AND shared.shows(o.trust, o.audience)
$$;

-- A call may also wait because it would change something that somebody else's message proposes.
ALTER TABLE pending_actions DROP CONSTRAINT pending_actions_cause_check;
ALTER TABLE pending_actions ADD CONSTRAINT pending_actions_cause_check CHECK (cause IN ('gated', 'exposure', 'proposal'));
