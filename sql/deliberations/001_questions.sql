-- The council: what it was asked, what each of its models said, and what waits to be told to a knowledge graph.
-- Runs as the owner role with search_path = <schema>, shared, public. Rows have the label of the session that is conducted.

CREATE TABLE council_questions (
    -- What is worked on: the part of a message, else the request. A try after a kill goes on with the same one.
    id            uuid PRIMARY KEY,
    -- The session that is conducted, of the last try.
    session_id    uuid NOT NULL,
    -- What belongs together: a thread, a chat, or the question alone.
    conversation  text NOT NULL,
    question      text NOT NULL,
    title         text,
    -- The orders in which judges are shown answers follow from it.
    seed          bigint NOT NULL,
    -- How it was answered.
    way           text CHECK (way IN ('memory', 'direct', 'council')),
    answer        text,
    failure       text,
    -- Whether memory was enough: {"candidates", "memories", "threshold", "why"}.
    confidence    jsonb,
    -- The joined ranking after the last round: [{"member", "mean", "rankings"}].
    ranking       jsonb,
    asked_at      timestamptz NOT NULL DEFAULT shared.clock(),
    answered_at   timestamptz,
    CHECK (answer IS NULL OR failure IS NULL)
);
SELECT shared.tenant_table('council_questions');
CREATE INDEX council_questions_newest ON council_questions (tenant_id, asked_at DESC, id DESC);

-- What one of the models did.
CREATE TABLE council_steps (
    id          uuid PRIMARY KEY,
    question_id uuid NOT NULL REFERENCES council_questions (id) ON DELETE CASCADE,
    stage       text NOT NULL CHECK (stage IN ('confidence', 'router', 'title', 'answer', 'judge', 'chairman', 'direct')),
    round       integer NOT NULL DEFAULT 0,
    member      text NOT NULL,
    model       text NOT NULL,
    -- Its session; null: none came to be.
    session_id  uuid,
    -- What it said.
    said        text,
    -- Why it is left out.
    failure     text,
    -- Of a judge: the letters that it was shown ({"A": "member"}), and the members in its order.
    letters     jsonb,
    ranking     jsonb,
    -- What it took of what the question may use; usd is null where nobody knows.
    usd         text,
    tokens      bigint NOT NULL DEFAULT 0,
    ended_at    timestamptz NOT NULL DEFAULT shared.clock(),
    CHECK ((said IS NULL) <> (failure IS NULL))
);
SELECT shared.tenant_table('council_steps');
CREATE INDEX council_steps_of ON council_steps (tenant_id, question_id, ended_at);

-- Episodes for a knowledge graph: each written with the step that it tells of, and sent once.
CREATE TABLE council_episodes (
    id           uuid PRIMARY KEY,
    seq          bigint GENERATED ALWAYS AS IDENTITY,
    -- One after the other within a conversation.
    conversation text NOT NULL,
    body         text NOT NULL,
    -- `user`, `council:<model>`, `chairman:<model>`, `direct:<model>`, `memory`.
    description  text NOT NULL,
    group_id     text NOT NULL,
    said_at      timestamptz NOT NULL,
    state        text NOT NULL DEFAULT 'accepted' CHECK (state IN ('accepted', 'processing', 'sent', 'dead')),
    -- It may have been sent already, by a worker that died or was not answered.
    doubtful     boolean NOT NULL DEFAULT false,
    claim_id     uuid,
    claimed_by   text,
    lease_until  timestamptz,
    attempts     integer NOT NULL DEFAULT 0,
    available_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error   text,
    settled_at   timestamptz,
    CHECK ((state IN ('sent', 'dead')) = (settled_at IS NOT NULL)),
    CHECK ((state = 'processing') = (claim_id IS NOT NULL))
);
SELECT shared.tenant_table('council_episodes');
CREATE INDEX council_episodes_open ON council_episodes (seq) WHERE state IN ('accepted', 'processing');
CREATE INDEX council_episodes_line ON council_episodes (tenant_id, conversation, seq)
    WHERE state IN ('accepted', 'processing');
