-- Which of the household's people, organisations and things an event is about.
-- Runs as the owner role with search_path = shared.

-- Of an event as a whole, as somebody said it. An entity that was merged stands here by its own id, so that a merge which is
-- taken back leaves nothing wrong; who is shown it is shown whom it stands for.
CREATE TABLE calendar_entities (
    event  uuid NOT NULL,
    entity uuid NOT NULL REFERENCES entities (id) ON DELETE CASCADE,
    source uuid NOT NULL
);
SELECT shared.tenant_table('calendar_entities', 'event', 'entity');
ALTER TABLE calendar_entities ADD FOREIGN KEY (tenant_id, event) REFERENCES calendar_events (tenant_id, id) ON DELETE CASCADE;
CREATE INDEX calendar_entities_entity ON calendar_entities (entity);

-- As calendar_events has it.
ALTER POLICY tenant ON calendar_entities
    USING (tenant_id = current_setting('butlerd.tenant', true)
           AND CASE WHEN source IN (SELECT r.source FROM shared.calendar_readers r)
               THEN (trust IN ('owner', 'system') OR current_setting('butlerd.trust', true) IN ('stranger', trust))
                    AND current_setting('butlerd.audience', true) = '{}'
                    OR shared.saw(trust, audience)
               ELSE false END);
GRANT SELECT ON calendar_entities TO PUBLIC;

-- Notes what an event is about; null: what `other` is, from which it was split. Returns the first entity that there is not, of
-- which nothing was noted. It looks at ids alone, so naming an entity shows nothing of it, as entity_standing has it.
CREATE FUNCTION calendar_about(which uuid, other uuid, about uuid[]) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path = shared, pg_temp AS $$
DECLARE
    home uuid;
    missing uuid;
BEGIN
    SELECT e.source INTO home FROM calendar_events e WHERE e.tenant_id = shared.tenant() AND e.id = which;
    PERFORM shared.calendar_writer(home);
    SELECT n INTO missing FROM unnest(about) n WHERE shared.entity_standing(n) IS NULL LIMIT 1;
    IF missing IS NOT NULL THEN
        RETURN missing;
    END IF;
    DELETE FROM calendar_entities a
    WHERE a.tenant_id = shared.tenant() AND a.event = which AND about IS NOT NULL AND a.entity <> ALL (about);
    INSERT INTO calendar_entities (event, entity, source) SELECT which, n, home FROM unnest(about) n ON CONFLICT DO NOTHING;
    -- What is taken over is believed no more than it was.
    INSERT INTO calendar_entities (event, entity, source, trust, audience)
    SELECT which, a.entity, home, calendar_lower(a.trust, shared.trust()), shared.common_audience(a.audience, shared.audience())
    FROM calendar_entities a WHERE about IS NULL AND a.tenant_id = shared.tenant() AND a.event = other
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;

-- Whether any event of the tenant's is about an entity, whoever sees it: where none is, no list looks for it event by event.
CREATE FUNCTION calendar_has_about() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER SET search_path = shared, pg_temp AS
$$ SELECT EXISTS (SELECT FROM calendar_entities a WHERE a.tenant_id = shared.tenant()) $$;
