-- What a person is shown before they decide: to whom a call goes, where its words come from, which pages of it they have
-- seen; and calls of one message that are decided on together.
-- Runs as the owner role with search_path = shared.

ALTER TABLE pending_actions
    -- To whom it goes, as it was resolved when it was asked for: {"to", "name", "channel", "address", "written_before"}.
    -- Null: it does not leave the household.
    ADD COLUMN recipient jsonb,
    -- Who could have influenced it: [{"who": "channel:identity", "trust", "request_id", "root_request_id"}].
    ADD COLUMN sources jsonb NOT NULL DEFAULT '[]',
    -- The calls that one message asks for, told and decided on together: the message's request. Null: it stands alone.
    ADD COLUMN proposal uuid;

-- A third reason to wait: its session was influenced by somebody who may not have such a thing done.
ALTER TABLE pending_actions DROP CONSTRAINT pending_actions_cause_check;
ALTER TABLE pending_actions ADD CONSTRAINT pending_actions_cause_check CHECK (cause IN ('gated', 'exposure', 'proposal'));
CREATE INDEX pending_actions_proposal ON pending_actions (tenant_id, proposal, seq) WHERE proposal IS NOT NULL;

-- Who besides the owner may have influenced the sessions that a rule is for: `channel:identity` of people who are known.
ALTER TABLE approval_rules ADD COLUMN also_influenced_by text[] NOT NULL DEFAULT '{}';

-- Which part of what a call would do was shown to whom. A call of several parts is approved by nobody who saw fewer.
CREATE TABLE approval_pages (
    action_id    uuid NOT NULL,
    -- As approval_events names who decides.
    decider      text NOT NULL,
    -- Of all that there is to be seen: what was shown before something in it changed counts for nothing.
    shown_sha256 text NOT NULL,
    page         integer NOT NULL CHECK (page > 0),
    shown_at     timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('approval_pages', 'action_id', 'decider', 'shown_sha256', 'page');

-- Whether anybody was ever written to at an address.
CREATE INDEX conversation_of_person ON conversation (tenant_id, channel, lower(person)) WHERE direction = 'out';
