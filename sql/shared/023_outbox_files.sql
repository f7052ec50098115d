-- Files that go along with a delivery.
-- Runs as the owner role with search_path = shared.

CREATE TABLE outbox_files (
    outbox_id  uuid NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    n          integer NOT NULL,
    name       text NOT NULL CHECK (name <> ''),
    media_type text NOT NULL,
    size       bigint NOT NULL,
    -- Of the content, in hexadecimal: people name a file by its beginning.
    sha256     text NOT NULL,
    -- Until it has left; what the chat shows stays as long as its row does.
    content    bytea,
    PRIMARY KEY (outbox_id, n)
);
SELECT shared.tenant_table('outbox_files');

-- Adds files to what the same call has just posted: a delivery of its own, or by its number an answer. `files`: an array of
-- {"name", "media_type", "content"}, the latter in base64. False: the very words were posted before, with other files or
-- so long ago that they may have left; these files go nowhere.
CREATE FUNCTION attach_files(delivery uuid, reply bigint, files jsonb, seal text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text := shared.by_daemon(seal);
    posted shared.outbox;
    -- Posted by this very transaction.
    fresh boolean;
    wanted text[];
    there text[];
BEGIN
    SELECT o.* INTO posted FROM shared.outbox o
    WHERE o.tenant_id = shared.tenant() AND o.origin = who AND (o.id = delivery OR o.reply_seq = reply) FOR UPDATE;
    IF posted.id IS NULL THEN
        RAISE EXCEPTION 'there is no delivery for these files' USING ERRCODE = '42501';
    END IF;
    SELECT o.xmin = pg_current_xact_id()::xid INTO fresh FROM shared.outbox o WHERE o.id = posted.id;
    SELECT array_agg(f.file ->> 'name' || encode(sha256(decode(f.file ->> 'content', 'base64')), 'hex') ORDER BY f.n)
    INTO wanted FROM jsonb_array_elements(files) WITH ORDINALITY AS f (file, n);
    SELECT array_agg(f.name || f.sha256 ORDER BY f.n) INTO there FROM shared.outbox_files f WHERE f.outbox_id = posted.id;
    IF there IS NOT NULL THEN
        RETURN there = wanted;
    ELSIF NOT fresh AND (posted.claim_id IS NOT NULL OR posted.attempts > 0 OR posted.settled_at IS NOT NULL) THEN
        RETURN false;
    END IF;
    INSERT INTO shared.outbox_files (outbox_id, tenant_id, trust, audience, n, name, media_type, size, sha256, content)
    SELECT posted.id, posted.tenant_id, posted.trust, posted.audience, f.n, f.file ->> 'name', f.file ->> 'media_type',
           octet_length(f.content), encode(sha256(f.content), 'hex'), f.content
    FROM (SELECT n, file, decode(file ->> 'content', 'base64') AS content
          FROM jsonb_array_elements(files) WITH ORDINALITY AS given (file, n)) f;
    RETURN true;
END $$;
