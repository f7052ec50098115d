-- The messenger may answer a stored message: the daemon takes recipient, thread, end and lane from the message's row.
-- Runs as the owner role with search_path = shared.

-- What a butler wants said. Which butler it is, its login says. It waits, or waits for its time; nothing else.
CREATE OR REPLACE FUNCTION queue_delivery(wanted jsonb, seal text)
RETURNS TABLE (delivery uuid, delivery_state text, fresh boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    who text := shared.by_daemon(seal);
BEGIN
    IF NOT (wanted ->> 'intent' = 'send' OR wanted ->> 'intent' = 'reply' AND who = 'messenger')
       OR coalesce(wanted ->> 'state', 'pending') NOT IN ('pending', 'deferred')
       OR coalesce(wanted ->> 'kind', 'message') NOT IN ('message', 'reminder') THEN
        RAISE EXCEPTION 'a butler sends what waits' USING ERRCODE = '42501';
    END IF;
    IF wanted ->> 'intent' = 'send' THEN
        wanted := wanted - 'conversation';
    END IF;
    RETURN QUERY SELECT * FROM shared.queue_delivery_as(who, shared.tenant(), wanted - '{trust,reply_seq}'::text[]);
END $$;
