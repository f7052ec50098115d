-- What the switchboard hands over by a tool's call. Runs as the owner role with search_path = shared.

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
