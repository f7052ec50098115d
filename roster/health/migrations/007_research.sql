-- What was read and learned about health: notes with their source, never advice of the house.

CREATE TABLE research (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    title        text NOT NULL,
    content      text NOT NULL,
    tags         text[] NOT NULL DEFAULT '{}',
    source_url   text,
    condition_id uuid REFERENCES conditions (id),
    created_at   timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at   timestamptz,
    deleted_at   timestamptz,
    revisions    jsonb NOT NULL DEFAULT '[]'
);
COMMENT ON COLUMN research.source_url IS 'Where it was read; none where the person or their doctor said it.';

SELECT shared.tenant_table('research');

-- A title stands for one note: research_save relies on this.
CREATE UNIQUE INDEX research_one_each ON research (tenant_id, lower(title)) WHERE deleted_at IS NULL;

CREATE FUNCTION research_before_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    twin research;
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    NEW.title := health_text('title', NEW.title, 300);
    NEW.content := health_text('content', NEW.content, 50000);
    NEW.tags := health_tags(NEW.tags);
    IF NEW.source_url !~* '^https?://[^\s/]+' OR length(NEW.source_url) > 2000 THEN
        RAISE EXCEPTION 'source_url is "%". It must be a whole address, such as https://example.org/page; a book or a '
                        'person as the source goes into the content.', left(NEW.source_url, 200)
            USING ERRCODE = '22023';
    END IF;
    SELECT * INTO twin
      FROM research o
     WHERE o.tenant_id = NEW.tenant_id AND lower(o.title) = lower(NEW.title) AND o.deleted_at IS NULL
       AND o.id <> NEW.id;
    IF FOUND AND NEW.deleted_at IS NULL AND (TG_OP = 'UPDATE' OR NEW.content <> twin.content) THEN
        RAISE EXCEPTION 'There is a note with the title "%" already, of %: %. research_update changes it; another '
                        'note needs another title.', twin.title, twin.created_at::date, twin.id USING ERRCODE = '22023';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON research
    FOR EACH ROW EXECUTE FUNCTION research_before_write();
CREATE TRIGGER keep_revision BEFORE UPDATE ON research
    FOR EACH ROW EXECUTE FUNCTION health_keep_revision();
