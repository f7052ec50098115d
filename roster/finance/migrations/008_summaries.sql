-- Sums over the ledger. Each sum is of one currency.

-- Spending and income of a span, by category, merchant, month, week, account, payment method or tag.
CREATE FUNCTION money_summary(from_day text, to_day text, group_by text, of_category text, of_account uuid,
                              of_currency text)
RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    -- Without a beginning it is the month of the end, so far.
    last_day  CONSTANT date := coalesce(shared.day('end_date', to_day), shared.today());
    first_day CONSTANT date := coalesce(shared.day('start_date', from_day),
                                        date_trunc('month', last_day::timestamp)::date);
    wanted    CONSTANT text := money_category(of_category);
    totals jsonb;
    parts  jsonb;
BEGIN
    PERFORM money_filter(of_currency, of_account);
    IF last_day < first_day THEN
        RAISE EXCEPTION 'end_date % lies before start_date %. Exchange them.', last_day, first_day
            USING ERRCODE = '22023';
    END IF;
    WITH entries AS (
        SELECT l.*, CASE group_by
                        WHEN 'category' THEN l.category WHEN 'merchant' THEN l.merchant_key
                        WHEN 'month' THEN to_char(l.day, 'YYYY-MM') WHEN 'week' THEN to_char(l.day, 'IYYY-"W"IW')
                        WHEN 'account' THEN coalesce((SELECT concat_ws(' ', a.institution, a.name, a.last_four)
                                                        FROM accounts a WHERE a.id = l.account_id), 'no account')
                        WHEN 'payment_method' THEN coalesce(lower(l.payment_method), 'unknown') END AS part
          FROM ledger l
         WHERE l.day BETWEEN first_day AND last_day
           AND (wanted IS NULL AND l.counts OR l.category = wanted)
           AND (of_account IS NULL OR l.account_id = of_account)
           AND (of_currency IS NULL OR l.currency = upper(of_currency))
    ), sums AS (
        SELECT e.currency, e.part, GROUPING(e.part) = 1 AS whole, count(*) AS n,
               coalesce(sum(e.amount) FILTER (WHERE e.direction = 'debit'), 0) AS spent,
               coalesce(sum(e.amount) FILTER (WHERE e.direction = 'credit'), 0) AS received
          FROM entries e
         GROUP BY GROUPING SETS ((e.currency), (e.currency, e.part))
    )
    SELECT coalesce(jsonb_agg(jsonb_build_object('currency', s.currency, 'spent', money_json(s.spent),
                        'received', money_json(s.received), 'net', money_json(s.received - s.spent),
                        'transactions', s.n)
                    ORDER BY s.currency) FILTER (WHERE s.whole), '[]'),
           coalesce(jsonb_agg(jsonb_build_object('group', s.part, 'currency', s.currency, 'spent', money_json(s.spent),
                        'received', money_json(s.received), 'net', money_json(s.received - s.spent),
                        'transactions', s.n, 'percent_of_spent', round(s.spent * 100 / nullif((
                            SELECT w.spent FROM sums w WHERE w.whole AND w.currency = s.currency), 0), 1))
                    ORDER BY s.currency, CASE WHEN group_by IN ('month', 'week') THEN s.part END, s.spent DESC, s.part)
                    FILTER (WHERE NOT s.whole), '[]')
      INTO totals, parts
      FROM sums s;
    RETURN jsonb_build_object('start_date', first_day, 'end_date', last_day, 'group_by', group_by, 'totals', totals,
                              'groups', parts);
END
$$;

-- What each month's spending was, against the month before or the same month a year before. The running month is
-- compared with the same days of the other one.
CREATE FUNCTION money_trends(comparison text, months int, of_category text, of_currency text)
RETURNS TABLE (month text, currency text, spent numeric, compared_month text, compared_spent numeric, change numeric,
               change_percent numeric, complete boolean)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH span AS (
        SELECT (date_trunc('month', shared.today()::timestamp) - make_interval(months => n))::date AS first_day,
               n = 0 AS running,
               CASE comparison WHEN 'year_over_year' THEN interval '1 year' ELSE interval '1 month' END AS back
          FROM generate_series(0, months - 1) n
    ), pairs AS (
        SELECT s.first_day, s.running, (s.first_day - s.back)::date AS other_first,
               least(CASE WHEN s.running THEN shared.today() ELSE (s.first_day + interval '1 month')::date - 1 END,
                     (s.first_day + interval '1 month')::date - 1) AS last_day,
               CASE WHEN s.running
                    THEN least((s.first_day - s.back)::date + (shared.today() - s.first_day),
                               (s.first_day - s.back + interval '1 month')::date - 1)
                    ELSE (s.first_day - s.back + interval '1 month')::date - 1 END AS other_last
          FROM span s
    ), debits AS (
        SELECT l.currency, l.day, l.amount FROM ledger l
         WHERE l.direction = 'debit' AND (of_category IS NULL AND l.counts OR l.category = money_category(of_category))
           AND (of_currency IS NULL OR l.currency = upper(of_currency))
           AND l.day >= (SELECT min(p.other_first) FROM pairs p)
    ), sums AS (
        SELECT p.*, c.currency,
               coalesce(sum(d.amount) FILTER (WHERE d.day BETWEEN p.first_day AND p.last_day), 0) AS spent,
               coalesce(sum(d.amount) FILTER (WHERE d.day BETWEEN p.other_first AND p.other_last), 0) AS other
          FROM pairs p
         CROSS JOIN (SELECT DISTINCT currency FROM debits) c
          LEFT JOIN debits d ON d.currency = c.currency
         GROUP BY p.first_day, p.running, p.other_first, p.last_day, p.other_last, c.currency
    )
    SELECT to_char(s.first_day, 'YYYY-MM'), s.currency, s.spent, to_char(s.other_first, 'YYYY-MM'), s.other,
           s.spent - s.other, round((s.spent - s.other) * 100 / nullif(s.other, 0), 1), NOT s.running
      FROM sums s
     WHERE s.spent <> 0 OR s.other <> 0
     ORDER BY s.currency, s.first_day DESC
$$;

-- What this month's spending will come to: what is spent, and what was spent on average in the rest of the last three
-- months that are on record, or what is known to be due if that is more.
CREATE FUNCTION money_forecast(of_currency text)
RETURNS TABLE (month text, currency text, spent_so_far numeric, usual_rest numeric, known_due numeric,
               projected numeric, usual_month numeric, based_on_months int, days_left int)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH present AS (
        SELECT p.first_day, p.last_day, shared.today() - p.first_day AS days_gone
          FROM money_period('monthly', shared.today()) p
    ), debits AS (
        SELECT l.currency, l.day, l.amount, date_trunc('month', l.day::timestamp)::date AS first_day
          FROM ledger l, present p
         WHERE l.direction = 'debit' AND l.counts AND l.day >= p.first_day - interval '3 months' AND l.day <= p.last_day
    ), earlier AS (
        -- A month with nothing on record is no month of thrift.
        SELECT d.currency, d.first_day, sum(d.amount) AS whole,
               coalesce(sum(d.amount) FILTER (WHERE d.day - d.first_day > p.days_gone), 0) AS rest
          FROM debits d, present p
         WHERE d.first_day < p.first_day
         GROUP BY d.currency, d.first_day
    ), due AS (
        SELECT b.currency, b.amount FROM bills b, present p
         WHERE b.status = 'pending' AND b.due_date <= p.last_day
        UNION ALL
        SELECT s.currency, s.amount
          FROM subscriptions s, present p, money_later_dates(s.renews_from, s.frequency, shared.today(), p.last_day) d
         WHERE s.auto_renew AND s.status = 'active'
    ), currencies AS (
        SELECT d.currency FROM debits d UNION SELECT u.currency FROM due u
    ), sums AS (
        SELECT c.currency,
               (SELECT coalesce(sum(d.amount), 0) FROM debits d, present p
                 WHERE d.currency = c.currency AND d.first_day = p.first_day) AS spent,
               (SELECT round(avg(e.rest), shared.currency_digits(c.currency)) FROM earlier e
                 WHERE e.currency = c.currency) AS rest,
               (SELECT round(avg(e.whole), shared.currency_digits(c.currency)) FROM earlier e
                 WHERE e.currency = c.currency) AS whole,
               (SELECT count(*)::int FROM earlier e WHERE e.currency = c.currency) AS n,
               (SELECT coalesce(sum(u.amount), 0) FROM due u WHERE u.currency = c.currency) AS known
          FROM currencies c
         WHERE of_currency IS NULL OR c.currency = upper(of_currency)
    )
    SELECT to_char(p.first_day, 'YYYY-MM'), s.currency, s.spent, s.rest, s.known,
           CASE WHEN s.n > 0 THEN s.spent + greatest(s.rest, s.known) END, s.whole, s.n, p.last_day - shared.today()
      FROM sums s, present p
     ORDER BY s.currency
$$;

-- Money in and out, by week, month or quarter.
CREATE FUNCTION money_flow(period text, periods int, breakdown boolean, of_currency text)
RETURNS TABLE (first_day date, last_day date, currency text, income numeric, spending numeric, net numeric,
               complete boolean, income_by_category jsonb, spending_by_category jsonb)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH span AS (
        SELECT DISTINCT p.first_day, p.last_day
          FROM generate_series(0, periods - 1) n,
               LATERAL money_period(period, (shared.today() - n * CASE period WHEN 'weekly' THEN interval '7 days'
                                             WHEN 'monthly' THEN interval '1 month'
                                             ELSE interval '3 months' END)::date) p
    ), parts AS (
        SELECT s.first_day, s.last_day, l.currency, l.direction, l.category, sum(l.amount) AS amount
          FROM span s
          JOIN ledger l ON l.day BETWEEN s.first_day AND s.last_day
         WHERE l.counts AND (of_currency IS NULL OR l.currency = upper(of_currency))
         GROUP BY s.first_day, s.last_day, l.currency, l.direction, l.category
    )
    SELECT p.first_day, p.last_day, p.currency, coalesce(sum(p.amount) FILTER (WHERE p.direction = 'credit'), 0),
           coalesce(sum(p.amount) FILTER (WHERE p.direction = 'debit'), 0),
           sum(CASE p.direction WHEN 'credit' THEN p.amount ELSE -p.amount END), p.last_day < shared.today(),
           CASE WHEN breakdown THEN jsonb_object_agg(p.category, money_json(p.amount))
               FILTER (WHERE p.direction = 'credit') END,
           CASE WHEN breakdown THEN jsonb_object_agg(p.category, money_json(p.amount))
               FILTER (WHERE p.direction = 'debit') END
      FROM parts p
     GROUP BY p.first_day, p.last_day, p.currency
     ORDER BY p.first_day DESC, p.currency
$$;

-- What all accounts came to at the end of each month, and today: of each account the last balance known by then.
CREATE FUNCTION money_net_worth(months int, of_currency text)
RETURNS TABLE (as_of date, currency text, net_worth numeric, assets numeric, debts numeric, change numeric,
               accounts jsonb)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH days AS (
        SELECT shared.today() AS day
        UNION
        SELECT (date_trunc('month', shared.today()::timestamp) - make_interval(months => n))::date - 1
          FROM generate_series(0, months - 1) n
    ), known AS (
        SELECT DISTINCT ON (d.day, lower(b.institution), lower(b.account), b.currency) d.day, b.*
          FROM days d
          JOIN balance_snapshots b ON b.as_of_date <= d.day
         WHERE of_currency IS NULL OR b.currency = upper(of_currency)
         ORDER BY d.day, lower(b.institution), lower(b.account), b.currency, b.as_of_date DESC
    ), sums AS (
        SELECT k.day, k.currency, sum(k.balance) AS worth,
               coalesce(sum(k.balance) FILTER (WHERE k.balance > 0), 0) AS assets,
               coalesce(-sum(k.balance) FILTER (WHERE k.balance < 0), 0) AS debts,
               jsonb_agg(jsonb_build_object('account', k.account, 'institution', k.institution,
                             'balance', money_json(k.balance), 'as_of_date', k.as_of_date)
                         ORDER BY lower(k.institution), lower(k.account)) AS accounts
          FROM known k
         GROUP BY k.day, k.currency
    )
    SELECT s.day, s.currency, s.worth, s.assets, s.debts,
           s.worth - lag(s.worth) OVER (PARTITION BY s.currency ORDER BY s.day), s.accounts
      FROM sums s
     ORDER BY s.day DESC, s.currency
$$;

-- The transactions of a year that count for the tax return, and those that might.
CREATE FUNCTION money_tax(of_year int, ids uuid[], deductible boolean, note text)
RETURNS jsonb
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    wanted CONSTANT int := coalesce(of_year, extract(year FROM shared.today())::int);
    one     uuid;
    changed int := 0;
BEGIN
    FOREACH one IN ARRAY coalesce(ids, '{}') LOOP
        PERFORM transaction_live('transaction_ids', one);
        UPDATE transactions x
           SET tax_deductible = deductible, tax_note = CASE WHEN deductible THEN coalesce(note, x.tax_note) END
         WHERE x.id = one AND (x.tax_deductible, coalesce(x.tax_note, '')) IS DISTINCT FROM
                              (deductible, CASE WHEN deductible THEN coalesce(note, x.tax_note, '') ELSE '' END);
        changed := changed + FOUND::int;
    END LOOP;
    RETURN jsonb_build_object('year', wanted, 'changed', changed,
        'totals', (SELECT coalesce(jsonb_agg(jsonb_build_object('currency', t.currency, 'amount', money_json(t.amount),
                              'transactions', t.n) ORDER BY t.currency), '[]')
                     FROM (SELECT l.currency, count(*) AS n,
                                  sum(CASE l.direction WHEN 'debit' THEN l.amount ELSE -l.amount END) AS amount
                             FROM ledger l WHERE l.tax_deductible AND extract(year FROM l.day) = wanted
                            GROUP BY l.currency) t),
        'flagged', money_tax_list(wanted, true), 'candidates', money_tax_list(wanted, false));
END
$$;

-- The newest 100 transactions of a year that are flagged, or that are not and are of a kind that tax offices often
-- accept.
CREATE FUNCTION money_tax_list(of_year int, flagged boolean)
RETURNS jsonb
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('id', t.id, 'day', t.day, 'merchant', t.merchant,
                        'amount', money_json(t.amount), 'currency', t.currency, 'direction', t.direction,
                        'category', t.category, 'note', t.tax_note) ORDER BY t.day DESC, t.id), '[]')
      FROM (SELECT l.* FROM ledger l
             WHERE extract(year FROM l.day) = of_year AND l.tax_deductible = flagged
               AND (flagged OR l.direction = 'debit' AND (
                    l.category IN ('donation', 'donations', 'charity', 'childcare', 'work', 'office', 'business',
                                   'education', 'tax advice', 'taxes', 'health', 'medical', 'insurance', 'repairs',
                                   'household services')
                    OR l.tags && ARRAY['tax', 'work', 'business', 'donation']))
             ORDER BY l.day DESC, l.id LIMIT 100) t
$$;
