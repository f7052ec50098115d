-- Conditions, and the symptoms that may belong to one.

CREATE TABLE conditions (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name         text NOT NULL,
    status       text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'managed', 'resolved')),
    diagnosed_at date,
    notes        text,
    created_at   timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at   timestamptz,
    deleted_at   timestamptz,
    revisions    jsonb NOT NULL DEFAULT '[]'
);
COMMENT ON COLUMN conditions.diagnosed_at IS 'The day of the diagnosis, in the owner''s zone.';

SELECT shared.tenant_table('conditions');

-- A person has a condition once, whatever its state.
CREATE UNIQUE INDEX conditions_one_each ON conditions (tenant_id, lower(name)) WHERE deleted_at IS NULL;

CREATE FUNCTION condition_before_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    twin conditions;
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    NEW.name := health_text('name', NEW.name, 200);
    IF NEW.diagnosed_at > shared.today() THEN
        RAISE EXCEPTION 'diagnosed_at % lies in the future. Check the day, or leave it out if it isn''t known.',
            NEW.diagnosed_at USING ERRCODE = '22023';
    ELSIF NEW.diagnosed_at < '1900-01-01' THEN
        RAISE EXCEPTION 'diagnosed_at lies before 1900. Check the year.' USING ERRCODE = '22023';
    END IF;
    SELECT * INTO twin
      FROM conditions o
     WHERE o.tenant_id = NEW.tenant_id AND lower(o.name) = lower(NEW.name) AND o.deleted_at IS NULL AND o.id <> NEW.id;
    IF NOT FOUND OR NEW.deleted_at IS NOT NULL THEN
        RETURN NEW;
    ELSIF TG_OP = 'UPDATE' THEN
        RAISE EXCEPTION '% is on record already, as condition % (%). Nothing changed.', twin.name, twin.id, twin.status
            USING ERRCODE = '22023';
    ELSIF NEW.status <> twin.status OR NEW.diagnosed_at <> coalesce(twin.diagnosed_at, '-infinity') THEN
        RAISE EXCEPTION '% is on record already: condition %, %, diagnosed %. condition_update changes it.', twin.name,
            twin.id, twin.status, coalesce(twin.diagnosed_at::text, 'on a day not known') USING ERRCODE = '22023';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON conditions
    FOR EACH ROW EXECUTE FUNCTION condition_before_write();
CREATE TRIGGER keep_revision BEFORE UPDATE ON conditions
    FOR EACH ROW EXECUTE FUNCTION health_keep_revision();

CREATE TABLE symptoms (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name         text NOT NULL,
    severity     int NOT NULL CHECK (severity BETWEEN 1 AND 10),
    condition_id uuid REFERENCES conditions (id),
    occurred_at  timestamptz NOT NULL,
    notes        text,
    created_at   timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at   timestamptz,
    deleted_at   timestamptz,
    revisions    jsonb NOT NULL DEFAULT '[]'
);
COMMENT ON COLUMN symptoms.severity IS '1 is barely felt, 10 is the worst the person can imagine.';

SELECT shared.tenant_table('symptoms');

-- One symptom has one severity at a moment: symptom_log relies on this.
CREATE UNIQUE INDEX symptoms_one_each ON symptoms (tenant_id, lower(name), occurred_at) WHERE deleted_at IS NULL;
CREATE INDEX symptoms_by_time ON symptoms (tenant_id, occurred_at);
CREATE INDEX symptoms_by_condition ON symptoms (tenant_id, condition_id) WHERE condition_id IS NOT NULL;

CREATE FUNCTION symptom_before_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    twin symptoms;
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    NEW.name := health_text('name', NEW.name, 200);
    SELECT * INTO twin
      FROM symptoms o
     WHERE o.tenant_id = NEW.tenant_id AND lower(o.name) = lower(NEW.name) AND o.occurred_at = NEW.occurred_at
       AND o.deleted_at IS NULL AND o.id <> NEW.id;
    IF FOUND AND NEW.deleted_at IS NULL AND (TG_OP = 'UPDATE' OR NEW.severity <> twin.severity) THEN
        RAISE EXCEPTION '% at that moment is on record already, with severity %, as symptom %. symptom_update corrects '
                        'it.', twin.name, twin.severity, twin.id USING ERRCODE = '22023';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON symptoms
    FOR EACH ROW EXECUTE FUNCTION symptom_before_write();
CREATE TRIGGER keep_revision BEFORE UPDATE ON symptoms
    FOR EACH ROW EXECUTE FUNCTION health_keep_revision();
