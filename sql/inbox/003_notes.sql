-- What the switchboard notes beside the way of a message.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- Notes that were handed to butlers.
CREATE TABLE mail (
    id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    request_id     uuid NOT NULL,
    target_butler  text NOT NULL,
    sender         text NOT NULL,
    sender_channel text NOT NULL,
    subject        text,
    body           text NOT NULL,
    priority       smallint,
    metadata       jsonb,
    -- The row in the route inbox of its butler.
    route_id       uuid,
    created_at     timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('mail');
-- The same note of the same request is handed over once.
CREATE UNIQUE INDEX mail_once ON mail (tenant_id, request_id, target_butler, md5(coalesce(subject, '') || ' ' || body));

-- What was taken out of messages, and which tool of which butler it was given to.
CREATE TABLE extraction_log (
    id                     uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    seq                    bigint GENERATED ALWAYS AS IDENTITY,
    request_id             uuid NOT NULL,
    session_id             uuid,
    butler                 text,
    extraction_type        text NOT NULL,
    tool_name              text NOT NULL,
    tool_args              jsonb NOT NULL,
    target_contact_id      uuid,
    confidence             text CHECK (confidence IN ('high', 'medium', 'low')),
    source_message_preview text,
    source_channel         text,
    created_at             timestamptz NOT NULL DEFAULT shared.clock(),
    undone_at              timestamptz
);
SELECT shared.tenant_table('extraction_log');
CREATE INDEX extraction_log_newest ON extraction_log (tenant_id, seq);
