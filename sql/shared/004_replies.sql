-- What was answered to messages, and what is handed to butlers beside the way of a message.
-- Runs as the owner role with search_path = shared.

-- What was answered to a message, in order. Butlers write through say() alone, and read nothing here.
CREATE TABLE replies (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    request_id uuid NOT NULL,
    -- The part of the message that it answers; null: the daemon answers for the whole of it.
    segment_id uuid,
    -- Where the conversation goes on: channel, endpoint and thread.
    lane       text NOT NULL,
    butler     text NOT NULL,
    session_id uuid,
    kind       text NOT NULL CHECK (kind IN ('reply', 'react', 'failure')),
    message    text,
    emoji      text,
    -- The butler ended without answering, and its last words were taken for an answer.
    auto       boolean NOT NULL DEFAULT false,
    trust      text NOT NULL,
    -- Whom it answers, on which channel: the request's context. Null: only the lane is known.
    context    jsonb,
    at         timestamptz NOT NULL DEFAULT shared.clock(),
    CHECK ((kind = 'react') = (emoji IS NOT NULL)),
    CHECK ((kind = 'react') = (message IS NULL))
);
SELECT shared.tenant_table('replies');
CREATE INDEX replies_of_request ON replies (request_id, seq);
CREATE INDEX replies_of_lane ON replies (tenant_id, lane, seq);
-- The daemon answers a part once, whatever dies meanwhile.
CREATE UNIQUE INDEX replies_auto_once ON replies (segment_id) WHERE auto OR kind = 'failure';
-- A session's answer is said once, however often its model says the same.
CREATE UNIQUE INDEX replies_said_once ON replies (session_id, request_id, kind, md5(coalesce(message, emoji)))
    WHERE NOT auto AND kind <> 'failure';

-- A butler's answer. Which butler it is, its login says. The same of one session is one: its number comes again.
CREATE FUNCTION say(request uuid, segment uuid, lane text, session uuid, kind text, message text, emoji text, trust text,
                    context jsonb)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text;
    number bigint;
BEGIN
    SELECT r.butler INTO who FROM shared.butler_roles r WHERE r.role = session_user;
    IF who IS NULL THEN
        RAISE EXCEPTION 'only a butler answers' USING ERRCODE = '42501';
    END IF;
    INSERT INTO shared.replies (request_id, segment_id, lane, butler, session_id, kind, message, emoji, trust,
                                context)
    VALUES (request, segment, lane, who, session, kind, message, emoji, trust, context)
    ON CONFLICT DO NOTHING RETURNING seq INTO number;
    IF number IS NULL THEN
        SELECT r.seq INTO number FROM shared.replies r
        WHERE r.session_id = say.session AND r.request_id = say.request AND r.kind = say.kind AND NOT r.auto
          AND coalesce(r.message, r.emoji) = coalesce(say.message, say.emoji);
    END IF;
    RETURN number;
END $$;

-- Gives a butler a new session about how something ended that one of its sessions had begun. Called by the daemon, in the
-- transaction that writes down the end. `request` is the RequestContext that the session had then; `waits`: somebody in
-- its conversation waits for what comes of it. Returns the row's id in the butler's route inbox; null: it has none.
CREATE FUNCTION hand_back(to_butler text, request jsonb, waits boolean, prompt text, data jsonb) RETURNS uuid
LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    home text;
    id uuid := gen_random_uuid();
    route jsonb;
BEGIN
    SELECT r.schema INTO home FROM shared.butler_roles r WHERE r.butler = to_butler;
    IF home IS NULL THEN
        RETURN NULL;
    END IF;
    route := jsonb_build_object(
        'schema_version', 'route.v1', 'request_context', request, 'kind', 'answer', 'interactive', waits,
        'input', jsonb_build_object('prompt', prompt, 'context', data),
        'subrequest', jsonb_build_object('segment_id', id),
        'target', jsonb_build_object('butler', to_butler, 'tool', 'route.execute'));
    EXECUTE format('INSERT INTO %I.route_inbox (tenant_id, id, request_id, kind, route, trust)
                    VALUES ($1, $2, $3, ''answer'', $4, $5)', home)
    USING request ->> 'tenant_id', id, (request ->> 'request_id')::uuid, route, coalesce(request ->> 'trust', 'stranger');
    RETURN id;
END $$;
REVOKE EXECUTE ON FUNCTION hand_back FROM PUBLIC;

-- Gives a butler a session about a note, in the call's own transaction. How far the note is believed, its request says;
-- whose it is, the transaction. Returns the row's id in the butler's route inbox; null: there is no such butler.
CREATE FUNCTION hand_mail(to_butler text, request jsonb, prompt text, data jsonb) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM shared.butler_roles r WHERE r.role = session_user AND r.butler = 'switchboard') THEN
        RAISE EXCEPTION 'only the switchboard hands mail to butlers' USING ERRCODE = '42501';
    END IF;
    RETURN shared.hand_back(to_butler, request || jsonb_build_object('tenant_id', shared.tenant(), 'trust',
        CASE WHEN shared.trust() IN ('owner', 'system') THEN request ->> 'trust' ELSE shared.trust() END),
        false, prompt, data);
END $$;
