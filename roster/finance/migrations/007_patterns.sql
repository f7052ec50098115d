-- What the ledger shows over time: charges that come again, prices that changed, amounts out of the ordinary.

-- Merchants that charge, or pay, at even distances, over the last two years. A frequency is taken for one if three in
-- four of the distances between the days fit it.
CREATE FUNCTION money_recurring(min_occurrences int)
RETURNS TABLE (merchant_key text, merchant text, currency text, direction text, category text, frequency text,
               occurrences int, typical_amount numeric, last_amount numeric, lowest_amount numeric,
               highest_amount numeric, first_day date, last_day date, next_expected date, active boolean)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH days AS (
        SELECT l.merchant_key, l.currency, l.direction, l.day, max(l.amount) AS amount,
               (array_agg(l.merchant ORDER BY l.posted_at DESC))[1] AS merchant,
               (array_agg(l.category ORDER BY l.posted_at DESC))[1] AS category,
               l.day - lag(l.day) OVER (PARTITION BY l.merchant_key, l.currency, l.direction ORDER BY l.day) AS gap
          FROM ledger l
         WHERE l.counts AND l.split_of IS NULL AND l.day > shared.today() - 731
         GROUP BY l.merchant_key, l.currency, l.direction, l.day
    ), grouped AS (
        SELECT d.merchant_key, d.currency, d.direction, count(*)::int AS n,
               percentile_disc(0.5) WITHIN GROUP (ORDER BY d.gap) AS gap,
               percentile_disc(0.5) WITHIN GROUP (ORDER BY d.amount) AS typical,
               min(d.amount) AS lowest, max(d.amount) AS highest, min(d.day) AS first_day, max(d.day) AS last_day,
               (array_agg(d.amount ORDER BY d.day DESC))[1] AS last_amount,
               (array_agg(d.merchant ORDER BY d.day DESC))[1] AS merchant,
               (array_agg(d.category ORDER BY d.day DESC))[1] AS category, array_agg(d.gap) AS gaps
          FROM days d
         GROUP BY d.merchant_key, d.currency, d.direction
        HAVING count(*) >= greatest(min_occurrences, 2)
    )
    SELECT g.merchant_key, g.merchant, g.currency, g.direction, g.category, f.name, g.n, g.typical, g.last_amount,
           g.lowest, g.highest, g.first_day, g.last_day, shared.next_date(g.last_day, f.name, g.last_day),
           g.last_day + (f.high * 1.5)::int >= shared.today()
      FROM grouped g
      JOIN (VALUES ('weekly', 6, 8), ('biweekly', 13, 15), ('monthly', 26, 35), ('quarterly', 84, 98),
                   ('semiannual', 174, 192), ('yearly', 351, 379)) f(name, low, high) ON g.gap BETWEEN f.low AND f.high
     WHERE (SELECT count(*) FROM unnest(g.gaps) d(gap) WHERE d.gap BETWEEN f.low AND f.high) >= (g.n - 1) * 0.75
$$;

-- Recurring charges whose price was steady and then changed for good, and subscriptions whose price was changed on
-- record.
CREATE FUNCTION money_price_changes(days_back int)
RETURNS TABLE (merchant text, currency text, frequency text, old_amount numeric, new_amount numeric, change numeric,
               change_percent numeric, since date, found_in text)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH charges AS (
        SELECT l.merchant_key, l.currency, l.day, l.amount,
               lag(l.amount) OVER w AS before1, lag(l.amount, 2) OVER w AS before2,
               first_value(l.amount) OVER (PARTITION BY l.merchant_key, l.currency ORDER BY l.day DESC, l.id) AS latest
          FROM ledger l
         WHERE l.direction = 'debit' AND l.counts AND l.split_of IS NULL
        WINDOW w AS (PARTITION BY l.merchant_key, l.currency ORDER BY l.day, l.id)
    ), changed AS (
        SELECT r.merchant, r.currency, r.frequency, c.before1 AS old_amount, c.amount AS new_amount, c.day AS since,
               'transactions' AS found_in
          FROM charges c
          JOIN money_recurring(3) r
            ON r.merchant_key = c.merchant_key AND r.currency = c.currency AND r.direction = 'debit'
         WHERE c.day >= shared.today() - days_back AND c.before1 = c.before2 AND c.amount <> c.before1
           AND c.latest = c.amount
        UNION ALL
        SELECT s.service, s.currency, s.frequency, (p ->> 'amount')::numeric, s.amount, (p ->> 'until')::date,
               'subscription'
          FROM subscriptions s, LATERAL (SELECT s.prices -> -1) last(p)
         WHERE (p ->> 'until')::date >= shared.today() - days_back AND p ->> 'currency' = s.currency
           AND p ->> 'frequency' = s.frequency AND (p ->> 'amount')::numeric <> s.amount
    )
    SELECT c.merchant, c.currency, c.frequency, c.old_amount, c.new_amount, c.new_amount - c.old_amount,
           round((c.new_amount - c.old_amount) * 100 / nullif(c.old_amount, 0), 1), c.since, c.found_in
      FROM changed c
     ORDER BY c.since DESC, c.merchant, c.found_in
$$;

-- Spending out of the ordinary among what was posted, or what was recorded, in a span. `sensitivity` is how many
-- typical deviations above the usual amount it takes; fewer than so many earlier ones to compare with, and nothing is
-- said.
CREATE FUNCTION money_anomalies(since timestamptz, until timestamptz, by_recording boolean, sensitivity numeric)
RETURNS TABLE (transaction_id uuid, posted_at timestamptz, merchant text, category text, amount numeric, currency text,
               kind text, usual_amount numeric, compared_with int, score numeric)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH spending AS MATERIALIZED (
        SELECT l.id, l.posted_at, l.merchant, l.merchant_key, l.category, l.amount, l.currency,
               -- A statement of long ago that is recorded now is no news.
               CASE WHEN by_recording THEN l.created_at >= since AND l.created_at < until
                                           AND l.posted_at > since - interval '14 days'
                    ELSE l.posted_at >= since AND l.posted_at < until END AS fresh
          FROM ledger l
         WHERE l.direction = 'debit' AND l.counts AND l.posted_at > since - interval '1 year'
    ), earlier AS MATERIALIZED (
        SELECT k.kind, k.name, s.currency, count(*)::int AS n, array_agg(s.amount) AS amounts,
               percentile_disc(0.5) WITHIN GROUP (ORDER BY s.amount) AS usual,
               percentile_disc(0.95) WITHIN GROUP (ORDER BY s.amount) AS high
          FROM spending s,
               LATERAL (VALUES ('merchant', s.merchant_key), ('category', s.category), ('all', '')) k(kind, name)
         WHERE NOT s.fresh
         GROUP BY k.kind, k.name, s.currency
    ), compared AS (
        -- What a charge is held against: its merchant if that is known well enough, else its category; a merchant never
        -- seen is held against everything besides.
        SELECT s.*, e.kind AS against, e.n, e.usual, e.high,
               (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY abs(a - e.usual))
                  FROM unnest(e.amounts) a) AS scatter
          FROM spending s
          LEFT JOIN earlier m ON m.kind = 'merchant' AND m.name = s.merchant_key AND m.currency = s.currency
          JOIN earlier e ON e.currency = s.currency
           AND (e.kind = 'merchant' AND e.name = s.merchant_key AND e.n >= 4
                OR e.kind = 'category' AND e.name = s.category AND e.n >= 8 AND coalesce(m.n, 0) < 4
                OR e.kind = 'all' AND e.n >= 20 AND m.n IS NULL)
         WHERE s.fresh AND s.amount > e.usual * 1.3
    ), judged AS (
        SELECT c.*,
               -- 1.4826 turns the middle distance into what a standard deviation would be.
               round((c.amount - c.usual) / greatest(1.4826 * c.scatter, c.usual * 0.1), 1) AS far
          FROM compared c
    ), named AS (
        SELECT DISTINCT ON (j.id) j.id, j.usual, j.n, CASE WHEN j.against <> 'all' THEN j.far END AS score,
               CASE j.against WHEN 'merchant' THEN 'unusual_for_merchant' WHEN 'category' THEN 'unusual_for_category'
                              ELSE 'large_at_new_merchant' END AS kind
          FROM judged j
         WHERE CASE WHEN j.against = 'all' THEN j.amount > j.high ELSE j.far >= sensitivity END
         ORDER BY j.id, array_position(ARRAY['merchant', 'category', 'all'], j.against)
    )
    SELECT f.id, f.posted_at, f.merchant, f.category, f.amount, f.currency, n.kind, n.usual, n.n, n.score
      FROM named n
      JOIN spending f ON f.id = n.id
     ORDER BY f.posted_at DESC, f.id
$$;

-- What subscriptions cost, what is odd about them, and regular charges that look like some.
CREATE FUNCTION money_subscription_audit(of_currency text)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH kept AS (
        SELECT s.*, money_yearly(s.amount, s.frequency) AS yearly, c.day AS charged_on, c.amount AS charged,
               c.currency AS charged_in
          FROM subscriptions s
          LEFT JOIN LATERAL (
            SELECT l.day, l.amount, l.currency FROM ledger l
             WHERE l.direction = 'debit' AND l.merchant_key = money_merchant_key(s.service)
             ORDER BY l.posted_at DESC, l.id LIMIT 1) c ON true
         WHERE (s.status <> 'cancelled' OR c.day > s.cancelled_at::date)
           AND (of_currency IS NULL OR s.currency = of_currency)
    ), judged AS (
        SELECT k.*, array_remove(ARRAY[
                   CASE WHEN k.amount > 0 AND k.charged_on IS NULL THEN 'no_charge_found' END,
                   CASE WHEN k.charged_in = k.currency AND k.charged <> k.amount THEN 'price_differs' END,
                   CASE WHEN k.status = 'active' AND k.amount > 0
                         AND (k.charged_on + shared.frequency_step(k.frequency) * 2)::date < shared.today()
                        THEN 'not_charged_lately' END,
                   CASE WHEN k.status = 'paused' AND k.charged_on > coalesce(k.updated_at, k.created_at)::date
                        THEN 'charged_though_paused' END,
                   CASE WHEN k.status = 'cancelled' THEN 'charged_though_cancelled' END], NULL) AS findings
          FROM kept k
    )
    SELECT jsonb_build_object(
        'totals', (SELECT coalesce(jsonb_agg(jsonb_build_object('currency', t.currency, 'subscriptions', t.n,
                       'monthly', money_json(round(t.yearly / 12, shared.currency_digits(t.currency))),
                       'yearly', money_json(t.yearly)) ORDER BY t.currency), '[]')
                     FROM (SELECT j.currency, count(*) AS n, sum(j.yearly) AS yearly FROM judged j
                            WHERE j.status = 'active' GROUP BY j.currency) t),
        'subscriptions', (SELECT coalesce(jsonb_agg(jsonb_build_object('id', j.id, 'service', j.service,
                       'status', j.status, 'amount', money_json(j.amount), 'currency', j.currency,
                       'frequency', j.frequency, 'yearly', money_json(j.yearly), 'next_renewal', money_renewal(s),
                       'last_charged_on', j.charged_on, 'last_charged_amount', money_json(j.charged),
                       'findings', to_jsonb(j.findings))
                       ORDER BY j.currency, j.yearly DESC, j.service_key), '[]')
                     FROM judged j JOIN subscriptions s ON s.id = j.id),
        'untracked', (SELECT coalesce(jsonb_agg(jsonb_build_object('merchant', r.merchant,
                       'amount', money_json(r.typical_amount), 'currency', r.currency,
                       'frequency', r.frequency, 'occurrences', r.occurrences, 'last_charged_on', r.last_day,
                       'yearly', money_json(money_yearly(r.typical_amount, r.frequency)))
                       ORDER BY r.currency, money_yearly(r.typical_amount, r.frequency) DESC, r.merchant_key), '[]')
                     FROM money_recurring(3) r
                    WHERE r.direction = 'debit' AND r.active AND (of_currency IS NULL OR r.currency = of_currency)
                      AND r.highest_amount <= r.lowest_amount * 1.5
                      AND NOT EXISTS (SELECT 1 FROM subscriptions s
                                       WHERE money_merchant_key(s.service) = r.merchant_key)
                      AND NOT EXISTS (SELECT 1 FROM bills b WHERE b.payee_key = r.merchant_key)))
$$;
