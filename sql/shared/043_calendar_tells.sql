-- Whom a calendar's provider tells of a change: nobody, unless the change says so and was let through.
-- Runs as the owner role with search_path = shared.

-- Of the change that waits for the provider; null: nobody.
ALTER TABLE calendar_items ADD COLUMN tell text CHECK (tell IN ('all', 'externalOnly'));

-- What both sides have is told no more.
CREATE FUNCTION calendar_told() RETURNS trigger LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
BEGIN
    NEW.tell := NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER calendar_told BEFORE UPDATE ON calendar_items FOR EACH ROW
    WHEN (NEW.tell IS NOT NULL AND NOT NEW.pending) EXECUTE FUNCTION calendar_told();

-- Notes whom the provider is to tell of an item's change, in the transaction that makes it. False: an earlier change waits of
-- which more are to be told, who would be told of this one, too. What is gone is gone as the deletion says.
CREATE FUNCTION calendar_tell(which uuid, whom text, gone boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    item calendar_items;
BEGIN
    SELECT * INTO item FROM calendar_items i WHERE i.tenant_id = shared.tenant() AND i.id = which FOR UPDATE;
    IF item.id IS NULL OR item.tell IS NOT DISTINCT FROM whom THEN
        RETURN true;
    END IF;
    PERFORM shared.calendar_writer(item.source);
    IF item.tell IS NOT NULL AND whom IS DISTINCT FROM 'all' AND NOT gone THEN
        RETURN false;
    END IF;
    UPDATE calendar_items i SET tell = whom WHERE i.tenant_id = shared.tenant() AND i.id = which;
    RETURN true;
END $$;
