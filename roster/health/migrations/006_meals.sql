-- Meals and what was in them.

-- What is known of a meal's nutrition, one number each, with its unit in the name. `high` catches most mistaken units.
CREATE FUNCTION meal_nutrients()
RETURNS TABLE (place int, nutrient text, high numeric)
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    VALUES (1, 'kcal', 10000), (2, 'protein_g', 1000), (3, 'carbs_g', 2000), (4, 'sugar_g', 2000), (5, 'fat_g', 1000),
           (6, 'saturated_fat_g', 1000), (7, 'fiber_g', 500), (8, 'salt_g', 200), (9, 'alcohol_g', 500),
           (10, 'caffeine_mg', 5000), (11, 'water_ml', 20000)
$$;

-- Why `given` is no nutrition of a meal, as a sentence to act on; null when it is one, or nothing.
CREATE FUNCTION meal_nutrition_problem(given jsonb)
RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    part record;
BEGIN
    IF jsonb_typeof(given) <> 'object' THEN
        RETURN 'nutrition is an object such as {"kcal": 520, "protein_g": 31}.';
    END IF;
    FOR part IN SELECT g.key, g.value, n.high
                  FROM jsonb_each(given) g LEFT JOIN meal_nutrients() n ON n.nutrient = g.key ORDER BY n.place LOOP
        IF part.high IS NULL THEN
            RETURN format('nutrition has no "%s". It takes %s%s. Leave out what isn''t known.', part.key,
                          (SELECT string_agg(n.nutrient, ', ' ORDER BY n.place) FROM meal_nutrients() n),
                          CASE part.key WHEN 'calories' THEN '; calories of food are kcal' WHEN 'kj' THEN
                          '; kJ are divided by 4.184 first' WHEN 'sodium_mg' THEN
                          '; sodium in mg is divided by 400 for salt_g' ELSE '' END);
        ELSIF jsonb_typeof(part.value) <> 'number' THEN
            RETURN format('nutrition: "%s" must be a number.', part.key);
        ELSIF part.value::numeric < 0 OR part.value::numeric > part.high THEN
            RETURN format('nutrition: "%s": %s is not plausible for one meal, it lies outside 0 to %s. Check the unit, '
                          'or ask the person.', part.key, part.value, part.high);
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

CREATE TABLE meals (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    type          text NOT NULL CHECK (type IN ('breakfast', 'lunch', 'dinner', 'snack')),
    description   text NOT NULL,
    eaten_at      timestamptz NOT NULL,
    nutrition     jsonb,
    mood_before   int CHECK (mood_before BETWEEN 1 AND 10),
    satisfaction  int CHECK (satisfaction BETWEEN 1 AND 10),
    symptom_notes text,
    tags          text[] NOT NULL DEFAULT '{}',
    notes         text,
    created_at    timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at    timestamptz,
    deleted_at    timestamptz,
    revisions     jsonb NOT NULL DEFAULT '[]'
);
COMMENT ON COLUMN meals.nutrition IS 'Numbers of meal_nutrients(); null where nobody said or estimated any.';
COMMENT ON COLUMN meals.mood_before IS '1 is very low, 10 very good.';

SELECT shared.tenant_table('meals');

-- The same food at the same moment is one meal: meal_log relies on this.
CREATE UNIQUE INDEX meals_one_each ON meals (tenant_id, eaten_at, type, md5(lower(description)))
    WHERE deleted_at IS NULL;
CREATE INDEX meals_by_time ON meals (tenant_id, eaten_at);

CREATE FUNCTION meal_before_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    problem text;
    twin    uuid;
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    NEW.description := health_text('description', NEW.description, 2000);
    NEW.tags := health_tags(NEW.tags);
    NEW.nutrition := nullif(NEW.nutrition, '{}');
    problem := meal_nutrition_problem(NEW.nutrition);
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = '22023';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.deleted_at IS NULL THEN
        SELECT o.id INTO twin
          FROM meals o
         WHERE o.tenant_id = NEW.tenant_id AND o.eaten_at = NEW.eaten_at AND o.type = NEW.type
           AND lower(o.description) = lower(NEW.description) AND o.deleted_at IS NULL AND o.id <> NEW.id;
        IF FOUND THEN
            RAISE EXCEPTION 'The same meal at that moment is on record already, as meal %. Nothing changed.', twin
                USING ERRCODE = '22023';
        END IF;
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON meals
    FOR EACH ROW EXECUTE FUNCTION meal_before_write();
CREATE TRIGGER keep_revision BEFORE UPDATE ON meals
    FOR EACH ROW EXECUTE FUNCTION health_keep_revision();

-- The sums of what is known of the meals of a span: {"kcal": 1840, "protein_g": 92}; null where nothing is. `of_type`:
-- null is every type.
CREATE FUNCTION meal_totals(from_at timestamptz, until_at timestamptz, of_type text)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT jsonb_object_agg(s.nutrient, s.total)
      FROM (SELECT n.nutrient, trim_scale(sum((m.nutrition ->> n.nutrient)::numeric)) AS total
              FROM meals m JOIN meal_nutrients() n ON m.nutrition ? n.nutrient
             WHERE m.eaten_at >= $1 AND m.eaten_at < $2 AND m.deleted_at IS NULL AND ($3 IS NULL OR m.type = $3)
             GROUP BY n.nutrient) s
$$;
