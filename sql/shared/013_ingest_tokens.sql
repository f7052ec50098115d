-- Which connector speaks for what, and keys out of parts that come from outside.
-- Runs as the owner role with search_path = shared.

-- Of a connector's token: the channels whose messages it hands in, and the household's own ends of them. It is believed there
-- on who writes. No channel: it hands in messages of any, and all their senders are strangers. No endpoint: each of them.
ALTER TABLE tokens ADD COLUMN channels text[] NOT NULL DEFAULT '{}', ADD COLUMN endpoints text[] NOT NULL DEFAULT '{}';

-- One key out of several parts, each behind its length in bytes, so that no text in one part reads as the border to the next.
-- The daemon makes the same (conversation::joined).
CREATE FUNCTION joined(VARIADIC parts text[]) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN octet_length(key) <= 500 THEN key
                ELSE left(key, 62) || '…' || encode(sha256(convert_to(key, 'UTF8')), 'hex') END
    FROM (SELECT coalesce(string_agg(coalesce(octet_length(part) || ':' || part, '-'), '' ORDER BY n), '') AS key
          FROM unnest(parts) WITH ORDINALITY AS p (part, n)) made
$$;

-- In which order deliveries leave: one after the other to a group's thread, and else to one recipient in one thread. The
-- name of a thread comes from outside and is nobody's address; so whoever is answered in a thread that is called like
-- somebody else delays only his own answers.
CREATE FUNCTION outbox_lane(channel text, endpoint text, thread text, target text, context jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN context @> '{"group": true}' AND thread IS NOT NULL
                THEN shared.joined('group', channel, endpoint, thread)
                ELSE shared.joined('to', channel, thread, target) END
$$;
CREATE FUNCTION outbox_in_lane() RETURNS trigger LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
BEGIN
    NEW.lane := shared.outbox_lane(NEW.channel, NEW.endpoint, NEW.thread, NEW.target, NEW.context);
    RETURN NEW;
END $$;
CREATE TRIGGER outbox_in_lane BEFORE INSERT ON outbox FOR EACH ROW EXECUTE FUNCTION outbox_in_lane();
-- What waits keeps its place before what will be written for the same recipient.
UPDATE outbox SET lane = shared.outbox_lane(channel, endpoint, thread, target, context)
WHERE settled_at IS NULL AND claim_id IS NULL;
