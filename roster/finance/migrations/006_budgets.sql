-- Budgets, and the balances of accounts over time.

CREATE TABLE budgets (
    id              uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    category        text NOT NULL CHECK (category <> ''),
    period          text NOT NULL CHECK (period IN ('weekly', 'monthly', 'quarterly', 'yearly')),
    amount          numeric NOT NULL CHECK (amount > 0),
    currency        text NOT NULL,
    warn_threshold  numeric NOT NULL DEFAULT 0.8 CHECK (warn_threshold > 0),
    alert_threshold numeric NOT NULL DEFAULT 1.0 CHECK (alert_threshold >= warn_threshold),
    created_at      timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at      timestamptz,
    deleted_at      timestamptz
);
COMMENT ON COLUMN budgets.category IS 'A category, or "all" for all spending.';
COMMENT ON COLUMN budgets.warn_threshold IS 'The share of the amount from which it is worth a hint; 0.8 is 80 percent.';

SELECT shared.tenant_table('budgets');

CREATE UNIQUE INDEX budgets_one ON budgets (tenant_id, category, period, currency);

-- The first and the last day of the period that a day lies in.
CREATE FUNCTION money_period(period text, day date)
RETURNS TABLE (first_day date, last_day date)
LANGUAGE sql IMMUTABLE
AS $$
    SELECT f::date, (f + CASE period WHEN 'weekly' THEN interval '7 days' WHEN 'monthly' THEN interval '1 month'
                                     WHEN 'quarterly' THEN interval '3 months' ELSE interval '1 year' END)::date - 1
      FROM date_trunc(CASE period WHEN 'weekly' THEN 'week' WHEN 'monthly' THEN 'month' WHEN 'quarterly' THEN 'quarter'
                                  ELSE 'year' END, day::timestamp) f
$$;

-- What was spent on a category from one day to another, as far as it was on record at a moment: debits less refunds,
-- which are the credits of the same category. Of "all" it is the debits of every category; transfers are no spending.
CREATE FUNCTION money_spent(of_category text, of_currency text, first_day date, last_day date, known_at timestamptz)
RETURNS numeric
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT coalesce(sum(CASE WHEN l.direction = 'debit' THEN l.amount WHEN of_category <> 'all' THEN -l.amount END), 0)
      FROM ledger l
     WHERE l.currency = of_currency AND l.day BETWEEN first_day AND last_day AND l.created_at < known_at
       AND (of_category = 'all' AND l.counts OR l.category = of_category)
$$;

-- Sets a budget; the same category, period and currency again changes it, and brings one back that was removed.
CREATE FUNCTION budget_put(of_category text, of_amount numeric, of_period text, of_currency text, warn numeric,
                           alert numeric)
RETURNS TABLE (budget budgets, already_set boolean, previous_amount numeric)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    unit CONSTANT text := shared.currency('currency', of_currency);
    cap  CONSTANT numeric := shared.money('amount', of_amount, unit);
    name CONSTANT text := money_category(of_category);
    old  budgets;
BEGIN
    IF name IS NULL OR name = 'transfer' THEN
        RAISE EXCEPTION 'category is "%". Name a category of spending, or "all" for everything.', of_category
            USING ERRCODE = '22023';
    ELSIF cap = 0 THEN
        RAISE EXCEPTION 'amount is 0. A budget is above zero; budget_remove takes one away.' USING ERRCODE = '22023';
    END IF;
    SELECT * INTO old FROM budgets x WHERE x.category = name AND x.period = of_period AND x.currency = unit;
    IF coalesce(warn, old.warn_threshold, 0.8) <= 0
       OR coalesce(warn, old.warn_threshold, 0.8) > coalesce(alert, old.alert_threshold, 1.0)
       OR coalesce(alert, old.alert_threshold, 1.0) > 10 THEN
        RAISE EXCEPTION 'warn_threshold is %, alert_threshold %. They are shares of the amount, the first not above '
            'the second: 0.8 and 1.0 are 80 and 100 percent.', coalesce(warn, old.warn_threshold, 0.8),
            coalesce(alert, old.alert_threshold, 1.0) USING ERRCODE = '22023';
    END IF;
    already_set := old.id IS NOT NULL AND old.deleted_at IS NULL;
    previous_amount := CASE WHEN already_set AND old.amount <> cap THEN old.amount END;
    INSERT INTO budgets AS x (category, period, amount, currency, warn_threshold, alert_threshold)
    VALUES (name, of_period, cap, unit, coalesce(warn, 0.8), coalesce(alert, 1.0))
    ON CONFLICT (tenant_id, category, period, currency) DO UPDATE
       SET amount = cap, warn_threshold = coalesce(warn, x.warn_threshold),
           alert_threshold = coalesce(alert, x.alert_threshold), deleted_at = NULL, updated_at = shared.clock()
    RETURNING x.* INTO budget;
    RETURN NEXT;
END
$$;

-- Removes the budget of a category and period, or brings it back.
CREATE FUNCTION budget_end(of_category text, of_period text, of_currency text, ended boolean)
RETURNS TABLE (budget budgets, changed boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    unit CONSTANT text := shared.currency('currency', of_currency);
    old  budgets;
    many int;
BEGIN
    SELECT count(*) INTO many FROM budgets x
     WHERE x.category = money_category(of_category) AND x.period = of_period AND (unit IS NULL OR x.currency = unit);
    IF many = 0 THEN
        RAISE EXCEPTION 'There is no % budget for "%"; budget_list shows them%.', of_period, of_category,
            CASE WHEN ended THEN '' ELSE ' with removed set to true' END USING ERRCODE = '22023';
    ELSIF many > 1 THEN
        RAISE EXCEPTION 'There is a % budget for "%" in more than one currency. Say which currency is meant.',
            of_period, of_category USING ERRCODE = '22023';
    END IF;
    SELECT * INTO old FROM budgets x
     WHERE x.category = money_category(of_category) AND x.period = of_period AND (unit IS NULL OR x.currency = unit);
    changed := (old.deleted_at IS NOT NULL) <> ended;
    IF changed THEN
        UPDATE budgets x SET deleted_at = CASE WHEN ended THEN shared.clock() END WHERE x.id = old.id;
    END IF;
    SELECT * INTO budget FROM budgets x WHERE x.id = old.id;
    RETURN NEXT;
END
$$;

CREATE TABLE balance_snapshots (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    account     text NOT NULL CHECK (account <> ''),
    institution text NOT NULL CHECK (institution <> ''),
    balance     numeric NOT NULL,
    currency    text NOT NULL,
    as_of_date  date NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at  timestamptz
);
COMMENT ON COLUMN balance_snapshots.balance IS 'Below zero for what is owed.';

SELECT shared.tenant_table('balance_snapshots');

CREATE UNIQUE INDEX balance_snapshots_one ON balance_snapshots
    (tenant_id, lower(institution), lower(account), currency, as_of_date);

CREATE TRIGGER no_secrets BEFORE INSERT OR UPDATE ON balance_snapshots
    FOR EACH ROW EXECUTE FUNCTION money_no_secrets('account', 'institution');

-- Writes down what stood on an account on a day; the same account and day again is corrected.
CREATE FUNCTION balance_put(of_account text, of_institution text, of_balance numeric, of_currency text, as_of text)
RETURNS TABLE (snapshot balance_snapshots, already_recorded boolean, previous_balance numeric)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    unit CONSTANT text := shared.currency('currency', of_currency);
    day  CONSTANT date := coalesce(shared.day('as_of_date', as_of), shared.today());
BEGIN
    IF day > shared.today() THEN
        RAISE EXCEPTION 'as_of_date is %, which is still to come. Give the day on which the balance was read.', day
            USING ERRCODE = '22023';
    ELSIF btrim(of_account) = '' OR btrim(of_institution) = '' THEN
        RAISE EXCEPTION 'account and institution must be named.' USING ERRCODE = '22023';
    END IF;
    PERFORM shared.money('balance', abs(of_balance), unit);
    SELECT x.balance INTO previous_balance FROM balance_snapshots x
     WHERE lower(x.institution) = lower(btrim(of_institution)) AND lower(x.account) = lower(btrim(of_account))
       AND x.currency = unit AND x.as_of_date = day;
    already_recorded := FOUND;
    INSERT INTO balance_snapshots AS x (account, institution, balance, currency, as_of_date)
    VALUES (btrim(of_account), btrim(of_institution), of_balance, unit, day)
    ON CONFLICT (tenant_id, lower(institution), lower(account), currency, as_of_date)
    DO UPDATE SET balance = excluded.balance, updated_at = shared.clock()
    RETURNING x.* INTO snapshot;
    RETURN NEXT;
END
$$;
