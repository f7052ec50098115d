-- What a butler keeps for itself: its state, its notes, attachments.
-- Runs as the owner role with search_path = <schema>, shared, public.

-- A butler's key-value memory of its own doing.
CREATE TABLE state (
    key        text NOT NULL,
    value      jsonb NOT NULL,
    version    bigint NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('state', 'key');

-- A line of the section "Notes to self". A note that a stranger's or a contact's words led to is kept, and shown to the
-- owner alone: no session is told it.
CREATE TABLE notes_to_self (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    text       text NOT NULL CHECK (text <> ''),
    session_id uuid,
    created_at timestamptz NOT NULL DEFAULT shared.clock(),
    -- Taken out, or replaced by another.
    dropped_at timestamptz
);
SELECT shared.tenant_table('notes_to_self');
CREATE UNIQUE INDEX notes_to_self_once ON notes_to_self (tenant_id, (trust IN ('owner', 'system')), md5(text)) WHERE dropped_at IS NULL;

-- Attachments, by the SHA-256 of their content.
CREATE TABLE blobs (
    sha256     text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    media_type text NOT NULL,
    filename   text,
    content    bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT shared.clock()
);
SELECT shared.tenant_table('blobs', 'sha256');
