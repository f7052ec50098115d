-- What butlers have published from their memories for all of the household.
-- Runs as the owner role with search_path = shared.

CREATE SEQUENCE memory_catalog_changes;

-- Facts that butlers have published for all of the household; each is its butler's, and changes with it.
CREATE TABLE memory_catalog (
    memory_id          uuid NOT NULL,
    change             bigint NOT NULL,
    butler             text NOT NULL,
    -- Whether it still holds; of one that does not, only the number is left.
    live               boolean NOT NULL,
    kind               text,
    subject            text,
    predicate          text,
    content            text,
    entity_id          uuid,
    object_entity_id   uuid,
    embedding          bytea,
    embedding_model    text,
    importance         real,
    confidence         real,
    decay_rate         real,
    retention_class    text,
    valid_from         timestamptz,
    valid_to           timestamptz,
    learned_at         timestamptz,
    last_confirmed_at  timestamptz,
    search             tsvector GENERATED ALWAYS AS (to_tsvector('english',
                       coalesce(subject, '') || ' ' || replace(coalesce(predicate, ''), '_', ' ') || ' ' ||
                       coalesce(content, ''))) STORED,
    CHECK (live = (content IS NOT NULL))
);
SELECT shared.tenant_table('memory_catalog', 'butler', 'memory_id');
CREATE INDEX memory_catalog_changed ON memory_catalog (tenant_id, change);
CREATE INDEX memory_catalog_search ON memory_catalog USING gin (search);
GRANT SELECT ON memory_catalog TO PUBLIC;

-- Puts a butler's fact into the catalog as it is now; null: it is not for all of the household, or no longer. Called by the
-- trigger on the butler's facts.
CREATE FUNCTION memory_publish(home text, tenant text, fact uuid, believed text, row_now jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = shared, pg_temp AS $$
DECLARE
    who text;
    before text := shared.trust();
BEGIN
    SELECT r.butler INTO who FROM shared.butler_roles r WHERE r.schema = home;
    IF row_now IS NULL AND NOT EXISTS (SELECT 1 FROM memory_catalog c
            WHERE c.tenant_id = tenant AND c.butler = who AND c.memory_id = fact AND c.live) THEN
        RETURN;
    END IF;
    -- Numbers become visible in their order.
    PERFORM pg_advisory_xact_lock(hashtextextended('memory_catalog ' || tenant, 0));
    PERFORM set_config('butlerd.trust', 'system', true);
    INSERT INTO memory_catalog (memory_id, change, butler, live, kind, subject, predicate, content, entity_id,
        object_entity_id, embedding, embedding_model, importance, confidence, decay_rate, retention_class, valid_from,
        valid_to, learned_at, last_confirmed_at, tenant_id, trust)
    SELECT fact, nextval('memory_catalog_changes'), who, row_now IS NOT NULL, r.kind, r.subject, r.predicate, r.content,
        r.entity_id, r.object_entity_id, r.embedding, r.embedding_model, r.importance, r.confidence, r.decay_rate,
        r.retention_class, r.valid_from, r.valid_to, r.learned_at, r.last_confirmed_at, tenant, believed
    FROM jsonb_populate_record(NULL::memory_catalog, coalesce(row_now, '{}')) r
    ON CONFLICT (tenant_id, butler, memory_id) DO UPDATE SET
        (change, live, kind, subject, predicate, content, entity_id, object_entity_id, embedding, embedding_model,
         importance, confidence, decay_rate, retention_class, valid_from, valid_to, learned_at, last_confirmed_at, trust) =
        (excluded.change, excluded.live, excluded.kind, excluded.subject, excluded.predicate, excluded.content,
         excluded.entity_id, excluded.object_entity_id, excluded.embedding, excluded.embedding_model, excluded.importance,
         excluded.confidence, excluded.decay_rate, excluded.retention_class, excluded.valid_from, excluded.valid_to,
         excluded.learned_at, excluded.last_confirmed_at, excluded.trust);
    PERFORM set_config('butlerd.trust', before, true);
END $$;
REVOKE EXECUTE ON FUNCTION memory_publish(text, text, uuid, text, jsonb) FROM PUBLIC;
