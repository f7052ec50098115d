-- What was due when, and what became of it; how long the stock lasts.

-- The moments at which a medication was or will be due, from one to before another, at most three years ahead; no end
-- given is no moment.
CREATE FUNCTION medication_slots(of_medication uuid, from_at timestamptz, until_at timestamptz)
RETURNS TABLE (slot_at timestamptz)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT s.slot_at
      FROM medication_plans p
      CROSS JOIN LATERAL generate_series(
            greatest(p.from_at, $2)::date::timestamp,
            least(p.until_at, coalesce($3, p.from_at), (p.end_date + 1)::timestamptz,
                  shared.clock() + interval '3 years')::date::timestamp,
            interval '1 day') d(day)
      CROSS JOIN LATERAL unnest(p.times) t(at)
      CROSS JOIN LATERAL (SELECT (d.day::date + t.at)::timestamptz AS slot_at) s
     WHERE p.medication_id = $1
       AND s.slot_at >= greatest(p.from_at, $2) AND s.slot_at < least(p.until_at, $3)
       AND d.day::date BETWEEN p.start_date AND coalesce(p.end_date, 'infinity')
       AND (p.weekdays = '{}' OR extract(isodow FROM d.day)::int = ANY (p.weekdays))
       AND (d.day::date - p.start_date) % p.every_days = 0
     ORDER BY 1
$$;

-- What became of each due dose of a span. A dose belongs to the due time before it, a late one too; up to four hours
-- early (half the distance to the time before, where times are close) it belongs to the next. `missed` is said after
-- two hours, `pending` before that.
CREATE FUNCTION medication_due(of_medication uuid, from_at timestamptz, until_at timestamptz)
RETURNS TABLE (slot_at timestamptz, status text, dose_id uuid)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH slots AS (
        -- Some days more at both ends, for the neighbours of the first and the last due time.
        SELECT s.slot_at,
               s.slot_at - least(interval '4 hours',
                                 (s.slot_at - lag(s.slot_at) OVER (ORDER BY s.slot_at)) / 2) AS opens
          FROM medication_slots(
                   $1, $2 - interval '2 days',
                   least($3, shared.clock()) + make_interval(days => 8 + coalesce(
                       (SELECT max(p.every_days) FROM medication_plans p WHERE p.medication_id = $1), 0))) s
    ), windows AS (
        SELECT s.slot_at, s.opens, lead(s.opens, 1, 'infinity') OVER (ORDER BY s.slot_at) AS closes FROM slots s
    )
    SELECT w.slot_at,
           CASE WHEN d.skipped THEN 'skipped'
                WHEN NOT d.skipped THEN 'taken'
                WHEN w.slot_at > shared.clock() - interval '2 hours' THEN 'pending'
                ELSE 'missed' END,
           d.id
      FROM windows w
      LEFT JOIN LATERAL (
            SELECT o.id, o.skipped
              FROM medication_doses o
             WHERE o.medication_id = $1 AND o.deleted_at IS NULL AND o.taken_at >= w.opens AND o.taken_at < w.closes
             ORDER BY o.skipped, o.taken_at
             LIMIT 1) d ON true
     WHERE w.slot_at >= $2 AND w.slot_at < $3
       AND (w.slot_at <= shared.clock() OR d.id IS NOT NULL)
$$;

-- How faithfully a medication was taken. By its plan where it had one in the span: percent is of what was due and is
-- decided. Else of what was logged: `due` and `missed` are then unknown. percent is null where there is nothing to
-- count.
CREATE FUNCTION medication_adherence(of_medication uuid, from_at timestamptz, until_at timestamptz)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH planned AS (
        SELECT count(*) FILTER (WHERE u.status = 'taken') AS taken,
               count(*) FILTER (WHERE u.status = 'skipped') AS skipped,
               count(*) FILTER (WHERE u.status = 'missed') AS missed, count(*) AS due
          FROM medication_due($1, $2, $3) u
    ), logged AS (
        SELECT count(*) FILTER (WHERE NOT o.skipped) AS taken, count(*) FILTER (WHERE o.skipped) AS skipped
          FROM medication_doses o
         WHERE o.medication_id = $1 AND o.deleted_at IS NULL AND o.taken_at >= $2 AND o.taken_at < $3
    )
    SELECT CASE WHEN p.due > 0 THEN
                jsonb_build_object('basis', 'schedule', 'due', p.taken + p.skipped + p.missed, 'taken', p.taken,
                    'skipped', p.skipped, 'missed', p.missed, 'doses_logged', l.taken,
                    'percent', round(100.0 * p.taken / nullif(p.taken + p.skipped + p.missed, 0), 1))
           ELSE jsonb_build_object('basis', 'logged', 'due', NULL, 'taken', l.taken, 'skipped', l.skipped,
                    'missed', NULL, 'doses_logged', l.taken,
                    'percent', round(100.0 * l.taken / nullif(l.taken + l.skipped, 0), 1)) END
      FROM planned p CROSS JOIN logged l
$$;

-- What is left of the stock and the first day on which a due dose finds too little; null where that is not known. A due
-- dose that nobody logged counts as taken, so that the box is rather emptier in the record than in the cupboard.
CREATE FUNCTION medication_stock(of_medication uuid)
RETURNS TABLE (stock_left numeric, runs_out_on date)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH held AS (
        SELECT m.id, m.stock, m.stock_at, m.units_per_dose AS unit, floor(m.stock / m.units_per_dose)::int AS doses
          FROM medications m
         WHERE m.id = $1 AND m.stock IS NOT NULL
    ), logged AS (
        SELECT o.id, o.taken_at AS at FROM held h JOIN medication_doses o ON o.medication_id = h.id
         WHERE o.deleted_at IS NULL AND NOT o.skipped AND o.taken_at > h.stock_at
    ), due AS (
        SELECT u.slot_at AS at FROM held h CROSS JOIN LATERAL medication_due(h.id, h.stock_at, shared.clock()) u
         WHERE u.status <> 'skipped'
    ), rest AS (
        SELECT h.*, greatest(h.stock - h.unit * greatest((SELECT count(*) FROM logged), (SELECT count(*) FROM due)), 0)
                    AS amount
          FROM held h
    )
    SELECT trim_scale(r.amount),
           CASE WHEN r.amount >= r.unit THEN
               (SELECT s.slot_at::date
                  FROM medication_slots(r.id, shared.clock(), shared.clock() + interval '370 days') s
                 ORDER BY s.slot_at OFFSET floor(r.amount / r.unit)::int LIMIT 1)
           ELSE
               -- It is empty: the day stays the one that followed its last dose.
               (SELECT min(s.slot_at)::date
                  FROM (SELECT CASE WHEN r.doses = 0 THEN r.stock_at ELSE least(
                                   -- A dose that was taken early belongs to the time that comes after it.
                                   (SELECT greatest(l.at, (SELECT u.slot_at
                                                             FROM medication_due(r.id, l.at, l.at + interval '4 hours 1 second') u
                                                            WHERE u.dose_id = l.id))
                                      FROM logged l ORDER BY l.at OFFSET greatest(r.doses - 1, 0) LIMIT 1),
                                   (SELECT d.at FROM due d ORDER BY d.at OFFSET greatest(r.doses - 1, 0) LIMIT 1)) END
                               AS at) e
                 CROSS JOIN LATERAL medication_slots(r.id, e.at + interval '1 microsecond',
                                                     greatest(e.at, shared.clock()) + interval '370 days') s)
           END
      FROM rest r
$$;

-- When the next dose is due; null for what is taken as needed, and at the end of a course.
CREATE FUNCTION medication_next(of_medication uuid)
RETURNS timestamptz
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT min(s.slot_at)
      FROM (SELECT greatest(shared.clock(), max(p.start_date)::timestamptz)
                   + make_interval(days => 8 + max(p.every_days)) AS until_at
              FROM medication_plans p WHERE p.medication_id = $1) h
      CROSS JOIN LATERAL medication_slots($1, shared.clock(), h.until_at) s
$$;
