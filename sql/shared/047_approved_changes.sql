-- What a person has approved may change what a more trusted hand wrote.
-- Runs as the owner role with search_path = shared.

-- A row that is changed is believed no more than the transaction that changes it, and those alone may learn it who may
-- learn what that transaction was shown. What a more trusted hand wrote, it changes only in a call that a person has
-- approved: the daemon says so of the call's own transactions (butlerd.approved). That gives the right to change the row and
-- nothing else, so the row is labelled like any other. The house's own work (butlerd.house) is left alone: it moves rows on
-- and puts nothing that it reads into others.
CREATE OR REPLACE FUNCTION keep_label() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    trust text := shared.trust();
BEGIN
    IF trust IN ('known', 'stranger') THEN
        IF (OLD.trust IN ('owner', 'system') OR OLD.trust = 'known' AND trust = 'stranger')
           AND current_setting('butlerd.approved', true) IS DISTINCT FROM 'on' THEN
            RAISE EXCEPTION 'a more trusted hand wrote this row of %', TG_TABLE_NAME USING ERRCODE = 'BD002';
        END IF;
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        IF NEW.trust <> 'stranger' THEN
            NEW.trust := trust;
        END IF;
    END IF;
    NEW.audience := shared.common_audience(NEW.audience, shared.audience());
    RETURN NEW;
END $$;
