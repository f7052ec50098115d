-- What several tools and jobs tell about a span of the record.

-- The course of one kind of measurement in a span: no row where there is no reading. A direction is how far the
-- straight line through the readings goes over them, against the smallest change that counts for the kind.
CREATE FUNCTION measurement_course(of_kind text, from_at timestamptz, until_at timestamptz)
RETURNS TABLE (kind text, measure text, unit text, count int, first float8, first_at timestamptz, last float8,
               last_at timestamptz, min float8, max float8, average float8, change float8, slope_per_week float8,
               direction text, diastolic_average float8)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH asked AS (
        SELECT k.kind, k.field, k.unit, k.notable FROM measurement_kinds() k WHERE k.kind = $1 AND k.place = 1
    ), readings AS (
        SELECT (m.value ->> a.field)::numeric AS n, (m.value ->> 'diastolic')::numeric AS diastolic, m.measured_at,
               extract(epoch FROM m.measured_at) / 604800 AS week
          FROM measurements m, asked a
         WHERE m.kind = $1 AND m.deleted_at IS NULL AND m.measured_at >= $2 AND m.measured_at < $3
    ), summary AS (
        SELECT count(*)::int AS count,
               (array_agg(n ORDER BY measured_at))[1] AS first, min(measured_at) AS first_at,
               (array_agg(n ORDER BY measured_at DESC))[1] AS last, max(measured_at) AS last_at,
               min(n) AS min, max(n) AS max, avg(n) AS average, avg(diastolic) AS diastolic_average,
               regr_slope(n, week) AS slope, max(week) - min(week) AS weeks
          FROM readings
    )
    SELECT a.kind, a.field, a.unit, s.count, s.first::float8, s.first_at, s.last::float8, s.last_at, s.min::float8,
           s.max::float8, round(s.average, 2)::float8, (s.last - s.first)::float8,
           CASE WHEN s.weeks * 7 >= 3 THEN round(s.slope::numeric, 3)::float8 END,
           CASE WHEN s.slope IS NULL THEN NULL
                WHEN s.slope * s.weeks >= a.notable THEN 'rising'
                WHEN s.slope * s.weeks <= -a.notable THEN 'falling'
                ELSE 'steady' END,
           round(s.diastolic_average, 2)::float8
      FROM asked a CROSS JOIN summary s
     WHERE s.count > 0
$$;

-- The sections of health_summary that are asked for; an unknown one is refused.
CREATE FUNCTION health_sections(given text[])
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    every CONSTANT text[] := ARRAY['measurements', 'medications', 'conditions', 'symptoms', 'meals'];
    wrong text;
BEGIN
    SELECT s INTO wrong FROM unnest(given) s WHERE s <> ALL (every) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'There is no section "%". The sections are %.', wrong, array_to_string(every, ', ')
            USING ERRCODE = '22023';
    END IF;
    RETURN CASE WHEN cardinality(given) > 0 THEN given ELSE every END;
END
$$;

-- Symptoms of a span by name: how often, how severe. Empty: none.
CREATE FUNCTION symptom_counts(from_at timestamptz, until_at timestamptz)
RETURNS TABLE (name text, count int, average_severity numeric, worst int, last_at timestamptz)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT (array_agg(s.name ORDER BY s.occurred_at DESC))[1], count(*)::int, round(avg(s.severity), 1),
           max(s.severity), max(s.occurred_at)
      FROM symptoms s
     WHERE s.deleted_at IS NULL AND s.occurred_at >= $1 AND s.occurred_at < $2
     GROUP BY lower(s.name)
$$;

-- What the record says of the days from one moment to before another, as objects for a report; null where nothing is.
CREATE FUNCTION health_measured(from_at timestamptz, until_at timestamptz)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT jsonb_agg(jsonb_strip_nulls(to_jsonb(c)) ORDER BY c.kind)
      FROM measurement_kinds() k CROSS JOIN LATERAL measurement_course(k.kind, $1, $2) c
     WHERE k.place = 1
$$;

-- The medications that were taken in a span, with how faithfully, one object each; null where none.
CREATE FUNCTION health_taken(from_at timestamptz, until_at timestamptz)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT jsonb_agg(jsonb_build_object('id', m.id, 'name', m.name, 'dosage', m.dosage, 'frequency', m.frequency,
                         'schedule', m.schedule, 'active', m.active,
                         'adherence', medication_adherence(m.id, $1, $2)) ORDER BY lower(m.name), m.id)
      FROM medications m
     WHERE (m.active OR m.stopped_at >= $1) AND m.created_at < $2
$$;
