-- What the switchboard handed to this butler, and what it asked of others.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- One row for each part of a message, question or late answer that is this butler's to deal with. Committed before the
-- switchboard is told that it was accepted; claimed under a lease, settled only by the claim that holds it.
CREATE TABLE route_inbox (
    id           uuid PRIMARY KEY,
    seq          bigint GENERATED ALWAYS AS IDENTITY,
    request_id   uuid NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('message', 'ask', 'answer')),
    -- route.v1, as it came.
    route        jsonb NOT NULL,
    trust        text NOT NULL,
    state        text NOT NULL DEFAULT 'accepted' CHECK (state IN ('accepted', 'processing', 'done', 'dead')),
    claim_id     uuid,
    claimed_by   text,
    lease_until  timestamptz,
    attempts     integer NOT NULL DEFAULT 0,
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    session_id   uuid,
    last_error   text,
    accepted_at  timestamptz NOT NULL DEFAULT shared.clock(),
    settled_at   timestamptz,
    CHECK ((state IN ('done', 'dead')) = (settled_at IS NOT NULL)),
    CHECK ((state = 'processing') = (claim_id IS NOT NULL))
);
SELECT shared.tenant_table('route_inbox');
CREATE INDEX route_inbox_open ON route_inbox (seq) WHERE state IN ('accepted', 'processing');
CREATE INDEX route_inbox_dead ON route_inbox (settled_at) WHERE state = 'dead';
CREATE INDEX route_inbox_of_request ON route_inbox (request_id);
CREATE TRIGGER conversation_handed AFTER INSERT ON route_inbox FOR EACH ROW WHEN (NEW.kind = 'message')
    EXECUTE FUNCTION shared.conversation_handed();

-- Questions to other butlers, from the asking side.
CREATE TABLE asks (
    -- Also the id of the row in the other's route_inbox.
    id          uuid PRIMARY KEY,
    session_id  uuid NOT NULL,
    request_id  uuid NOT NULL,
    butler      text NOT NULL,
    question    text NOT NULL,
    -- The context of the asking session, for an answer that comes late.
    context     jsonb NOT NULL,
    state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'late', 'answered', 'failed')),
    answer      text,
    asked_at    timestamptz NOT NULL DEFAULT shared.clock(),
    answered_at timestamptz
);
SELECT shared.tenant_table('asks');
