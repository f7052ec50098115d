-- Bills and subscriptions: what is to be paid, and when it comes again.
--
-- A recurring bill is a row for each date. Paying one makes the next, counted from the first date of the series, so
-- that the 31st stays the last day of each month. The next one's amount is only expected (`predicted`) until the bill
-- comes.

CREATE TABLE bills (
    id                     uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    payee                  text NOT NULL CHECK (payee <> ''),
    payee_key              text NOT NULL,
    amount                 numeric NOT NULL CHECK (amount > 0),
    currency               text NOT NULL,
    due_date               date NOT NULL,
    frequency              text NOT NULL DEFAULT 'one_time'
                           CHECK (frequency = 'one_time' OR shared.frequency_step(frequency) IS NOT NULL),
    first_due              date NOT NULL,
    status                 text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'paid', 'cancelled')),
    autopay                boolean NOT NULL DEFAULT false,
    predicted              boolean NOT NULL DEFAULT false,
    payment_method         text,
    account_id             uuid REFERENCES accounts (id),
    source_message_id      text,
    statement_period_start date,
    statement_period_end   date,
    paid_at                timestamptz,
    paid_amount            numeric,
    transaction_id         uuid REFERENCES transactions (id),
    previous_bill_id       uuid REFERENCES bills (id),
    metadata               jsonb NOT NULL DEFAULT '{}',
    created_at             timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at             timestamptz,
    CHECK ((status = 'paid') = (paid_at IS NOT NULL)),
    CHECK (statement_period_start <= statement_period_end)
);
COMMENT ON COLUMN bills.first_due IS 'The date from which the dates of a series are counted.';
COMMENT ON COLUMN bills.transaction_id IS 'The transaction that paid it.';

SELECT shared.tenant_table('bills');

-- A bill is told apart by payee, date and account, so that tracking it twice keeps one row.
CREATE UNIQUE INDEX bills_one ON bills
    (tenant_id, payee_key, due_date, coalesce(account_id, '00000000-0000-0000-0000-000000000000'));
CREATE INDEX bills_by_date ON bills (tenant_id, status, due_date);
-- A transaction pays one bill.
CREATE UNIQUE INDEX bills_one_payment ON bills (tenant_id, transaction_id) WHERE transaction_id IS NOT NULL;

CREATE TRIGGER no_secrets BEFORE INSERT OR UPDATE ON bills
    FOR EACH ROW EXECUTE FUNCTION money_no_secrets('payee', 'payment_method', 'metadata');

-- The bill with this id, or a refusal.
CREATE FUNCTION bill_known(of_id uuid)
RETURNS bills
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    b bills;
BEGIN
    SELECT * INTO b FROM bills x WHERE x.id = of_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no bill with that id; list_bills shows them.' USING ERRCODE = '22023';
    END IF;
    RETURN b;
END
$$;

-- Tracks a bill, given as the arguments of track_bill. One that is known by its id, or by payee, date and account, is
-- corrected; one that was only expected around that date becomes the real one.
CREATE FUNCTION bill_track(given jsonb)
RETURNS TABLE (bill bills, already_tracked boolean, previous_amount numeric, previous_due_date date)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    b     bills;
    old   bills;
    payer CONSTANT text := nullif(btrim(regexp_replace(given ->> 'payee', '\s+', ' ', 'g')), '');
    asked CONSTANT text := coalesce(given ->> 'status', CASE WHEN given ? 'bill_id' THEN NULL ELSE 'pending' END);
    reopened CONSTANT boolean := coalesce(given ->> 'status' IN ('pending', 'cancelled'), false);
BEGIN
    given := jsonb_strip_nulls(given);
    IF payer IS NULL THEN
        RAISE EXCEPTION 'payee is empty. Name who is to be paid.' USING ERRCODE = '22023';
    END IF;
    b.currency := shared.currency('currency', given ->> 'currency');
    b.amount := shared.money('amount', (given ->> 'amount')::numeric, b.currency);
    b.due_date := shared.day('due_date', given ->> 'due_date');
    b.account_id := account_known((given ->> 'account_id')::uuid);
    b.statement_period_start := shared.day('statement_period_start', given ->> 'statement_period_start');
    b.statement_period_end := shared.day('statement_period_end', given ->> 'statement_period_end');
    IF b.amount = 0 THEN
        RAISE EXCEPTION 'amount is 0. A bill has something to pay; if it is paid already, use mark_bill_paid.'
            USING ERRCODE = '22023';
    ELSIF b.statement_period_end < b.statement_period_start THEN
        RAISE EXCEPTION 'statement_period_end lies before statement_period_start. Exchange them.'
            USING ERRCODE = '22023';
    ELSIF given ? 'paid_at' AND coalesce(asked, 'pending') <> 'paid' THEN
        RAISE EXCEPTION 'paid_at is given, but status is not paid. Say status paid too, or leave paid_at out.'
            USING ERRCODE = '22023';
    END IF;

    IF given ? 'bill_id' THEN
        old := bill_known((given ->> 'bill_id')::uuid);
    ELSE
        SELECT * INTO old FROM bills x
         WHERE x.payee_key = money_merchant_key(payer) AND x.due_date = b.due_date
           AND (x.account_id = b.account_id OR b.account_id IS NULL OR x.account_id IS NULL)
         ORDER BY (x.account_id IS NOT DISTINCT FROM b.account_id) DESC, x.id LIMIT 1;
        IF NOT FOUND THEN
            SELECT * INTO old FROM bills x
             WHERE x.payee_key = money_merchant_key(payer) AND x.predicted AND x.status = 'pending'
               AND x.currency = b.currency AND (x.account_id = b.account_id OR b.account_id IS NULL)
               AND abs(x.due_date - b.due_date)
                   <= CASE WHEN x.frequency IN ('daily', 'weekly', 'biweekly') THEN 3 ELSE 14 END
             ORDER BY abs(x.due_date - b.due_date), x.id LIMIT 1;
        END IF;
    END IF;

    IF old.status = 'cancelled' AND NOT given ? 'status' THEN
        RAISE EXCEPTION 'The bill of % due % was cancelled. If it is to be paid after all, call this with status '
            'pending.',
            old.payee, old.due_date USING ERRCODE = '22023';
    ELSIF EXISTS (SELECT 1 FROM bills x
                   WHERE x.id <> old.id AND x.payee_key = money_merchant_key(payer) AND x.due_date = b.due_date
                     AND x.account_id IS NOT DISTINCT FROM coalesce(b.account_id, old.account_id)) THEN
        RAISE EXCEPTION 'Another bill of % is due on % already; list_bills shows it. Nothing changed.',
            payer, b.due_date USING ERRCODE = '22023';
    END IF;
    already_tracked := old.id IS NOT NULL;
    IF already_tracked THEN
        previous_amount := CASE WHEN old.amount <> b.amount OR old.currency <> b.currency THEN old.amount END;
        previous_due_date := CASE WHEN old.due_date <> b.due_date THEN old.due_date END;
        UPDATE bills x
           SET payee = payer, payee_key = money_merchant_key(payer), amount = b.amount, currency = b.currency,
               due_date = b.due_date,
               frequency = coalesce(given ->> 'frequency', x.frequency),
               first_due = CASE WHEN x.due_date <> b.due_date
                                     OR coalesce(given ->> 'frequency', x.frequency) <> x.frequency
                                THEN b.due_date ELSE x.first_due END,
               autopay = coalesce((given ->> 'autopay')::boolean, x.autopay),
               predicted = coalesce((given ->> 'predicted')::boolean, false),
               payment_method = coalesce(nullif(btrim(given ->> 'payment_method'), ''), x.payment_method),
               account_id = coalesce(b.account_id, x.account_id),
               source_message_id = coalesce(given ->> 'source_message_id', x.source_message_id),
               statement_period_start = coalesce(b.statement_period_start, x.statement_period_start),
               statement_period_end = coalesce(b.statement_period_end, x.statement_period_end),
               metadata = x.metadata || coalesce(given -> 'metadata', '{}'), updated_at = shared.clock(),
               status = CASE WHEN reopened THEN given ->> 'status' ELSE x.status END,
               paid_at = CASE WHEN NOT reopened THEN x.paid_at END,
               paid_amount = CASE WHEN NOT reopened THEN x.paid_amount END,
               transaction_id = CASE WHEN NOT reopened THEN x.transaction_id END
         WHERE x.id = old.id
        RETURNING x.* INTO bill;
    ELSE
        INSERT INTO bills AS x (payee, payee_key, amount, currency, due_date, frequency, first_due, status, autopay,
                                predicted, payment_method, account_id, source_message_id, statement_period_start,
                                statement_period_end, metadata)
        VALUES (payer, money_merchant_key(payer), b.amount, b.currency, b.due_date,
                coalesce(given ->> 'frequency', 'one_time'), b.due_date,
                CASE WHEN asked = 'cancelled' THEN 'cancelled' ELSE 'pending' END,
                coalesce((given ->> 'autopay')::boolean, false), coalesce((given ->> 'predicted')::boolean, false),
                nullif(btrim(given ->> 'payment_method'), ''), b.account_id, given ->> 'source_message_id',
                b.statement_period_start, b.statement_period_end, coalesce(given -> 'metadata', '{}'))
        RETURNING x.* INTO bill;
    END IF;
    IF asked = 'paid' AND bill.status <> 'paid' THEN
        SELECT (p.bill).* INTO bill FROM bill_pay(bill.id, given ->> 'paid_at', NULL, NULL) p;
    END IF;
    RETURN NEXT;
END
$$;

-- Marks a bill as paid and, if it comes again, makes the next one. What is paid already stays as it is.
CREATE FUNCTION bill_pay(of_id uuid, at text, by_transaction uuid, of_amount numeric)
RETURNS TABLE (bill bills, next_bill bills, already_paid boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    old    bills := bill_known(of_id);
    paying transactions;
    other  text;
    due    date;
    moment CONSTANT timestamptz := shared.moment('paid_at', at);
BEGIN
    already_paid := old.status = 'paid' AND (by_transaction IS NULL OR by_transaction = old.transaction_id);
    IF old.status = 'cancelled' THEN
        RAISE EXCEPTION 'The bill of % due % was cancelled. If it was paid after all, call track_bill with its id and '
            'status pending first.', old.payee, old.due_date USING ERRCODE = '22023';
    ELSIF moment::date > shared.today() THEN
        RAISE EXCEPTION 'paid_at is %, which is still to come. Mark it when it is paid.', moment::date
            USING ERRCODE = '22023';
    END IF;
    IF by_transaction IS NOT NULL THEN
        paying := transaction_live('transaction_id', by_transaction);
        SELECT format('%s due %s', x.payee, x.due_date) INTO other FROM bills x
         WHERE x.transaction_id = by_transaction AND x.id <> of_id;
        IF FOUND THEN
            RAISE EXCEPTION 'That transaction paid another bill already: %. Choose the one that paid this bill.', other
                USING ERRCODE = '22023';
        ELSIF paying.currency <> old.currency OR paying.direction <> 'debit' THEN
            RAISE EXCEPTION 'The bill is in %, to be paid; the transaction is a % in %. Choose the one that paid this '
                'bill.',
                old.currency, paying.direction, paying.currency USING ERRCODE = '22023';
        END IF;
    END IF;
    bill := old;
    IF NOT already_paid THEN
        UPDATE bills x
           SET status = 'paid', paid_at = coalesce(moment, paying.posted_at, old.paid_at, shared.clock()),
               paid_amount = coalesce(shared.money('amount', of_amount, old.currency), paying.amount, old.paid_amount,
                                      old.amount),
               transaction_id = coalesce(by_transaction, old.transaction_id), predicted = false,
               updated_at = shared.clock()
         WHERE x.id = of_id
        RETURNING x.* INTO bill;
    END IF;

    IF bill.frequency <> 'one_time' THEN
        due := shared.next_date(bill.first_due, bill.frequency, bill.due_date);
        -- The next one may be known already, also when its bill came with another date.
        SELECT * INTO next_bill FROM bills x
         WHERE x.previous_bill_id = of_id
            OR x.payee_key = bill.payee_key AND x.due_date = due AND x.account_id IS NOT DISTINCT FROM bill.account_id
         ORDER BY (x.previous_bill_id = of_id) DESC NULLS LAST LIMIT 1;
        IF NOT FOUND THEN
            INSERT INTO bills AS x (payee, payee_key, amount, currency, due_date, frequency, first_due, autopay,
                                    predicted, payment_method, account_id, previous_bill_id, metadata)
            VALUES (bill.payee, bill.payee_key, bill.amount, bill.currency, due, bill.frequency, bill.first_due,
                    bill.autopay, true, bill.payment_method, bill.account_id, bill.id, bill.metadata)
            RETURNING x.* INTO next_bill;
        END IF;
    END IF;
    RETURN NEXT;
END
$$;

-- The debits that may have paid a pending bill: same currency, a merchant that fits the payee, about the
-- due date, not used for another bill. `exact`: the amount is the bill's, and nothing else fits as well.
CREATE FUNCTION money_bill_matches(lookback int, of_payee text)
RETURNS TABLE (bill_id uuid, payee text, due_date date, bill_amount numeric, currency text, transaction_id uuid,
               merchant text, paid_on date, paid_amount numeric, exact boolean)
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    WITH pairs AS (
        SELECT b.id AS bill_id, b.payee, b.due_date, b.amount AS bill_amount, b.currency, l.id AS transaction_id,
               l.merchant, l.day AS paid_on, l.amount AS paid_amount
          FROM bills b
         CROSS JOIN LATERAL (
            -- Half the distance to the next one, so that one month's payment is not taken for the other's.
            SELECT CASE WHEN b.frequency IN ('daily', 'weekly', 'biweekly') THEN 3 WHEN b.frequency = 'monthly' THEN 14
                        ELSE 21 END AS early,
                   CASE WHEN b.frequency IN ('daily', 'weekly', 'biweekly') THEN 3 WHEN b.frequency = 'monthly' THEN 14
                        ELSE 45 END AS late) w
          JOIN ledger l ON l.currency = b.currency AND l.direction = 'debit'
           AND l.day BETWEEN b.due_date - w.early AND b.due_date + w.late
           AND (position(b.payee_key IN l.merchant_key) > 0
                OR length(l.merchant_key) >= 4 AND position(l.merchant_key IN b.payee_key) > 0)
         WHERE b.status = 'pending' AND l.day >= shared.today() - lookback
           AND (of_payee IS NULL OR b.payee ILIKE money_pattern('payee', of_payee))
           AND (b.account_id IS NULL OR l.account_id IS NULL OR b.account_id = l.account_id)
           AND abs(l.amount - b.amount) <= b.amount * CASE WHEN b.predicted THEN 0.5 ELSE 0.1 END
           AND NOT EXISTS (SELECT 1 FROM bills p WHERE p.transaction_id = l.id)
    )
    SELECT p.*, p.bill_amount = p.paid_amount
                AND count(*) FILTER (WHERE p.bill_amount = p.paid_amount) OVER (PARTITION BY p.bill_id) = 1
                AND count(*) FILTER (WHERE p.bill_amount = p.paid_amount) OVER (PARTITION BY p.transaction_id) = 1
      FROM pairs p
     ORDER BY p.due_date, p.payee, p.paid_on, p.transaction_id
$$;

-- Marks as paid the bills that one transaction clearly paid, and names the doubtful ones.
CREATE FUNCTION bill_reconcile(lookback int, of_payee text, dry_run boolean)
RETURNS jsonb
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    hit   record;
    paid  jsonb := '[]';
    round int := 0;
    more  boolean := true;
BEGIN
    -- Paying a recurring bill makes the next, which may have been paid too; not for ever.
    WHILE more AND round < 24 LOOP
        more := false;
        round := round + 1;
        FOR hit IN SELECT * FROM money_bill_matches(lookback, of_payee) m WHERE m.exact LOOP
            IF NOT dry_run THEN
                PERFORM bill_pay(hit.bill_id, NULL, hit.transaction_id, NULL);
                more := true;
            END IF;
            paid := paid || jsonb_build_object('bill_id', hit.bill_id, 'payee', hit.payee, 'due_date', hit.due_date,
                'amount', money_json(hit.bill_amount), 'currency', hit.currency, 'transaction_id', hit.transaction_id,
                'paid_on', hit.paid_on);
        END LOOP;
    END LOOP;
    RETURN jsonb_build_object('dry_run', dry_run, 'paid', paid, 'doubtful', (
        SELECT coalesce(jsonb_agg(jsonb_build_object('bill_id', m.bill_id, 'payee', m.payee, 'due_date', m.due_date,
                   'amount', money_json(m.bill_amount), 'currency', m.currency, 'transaction_id', m.transaction_id,
                   'merchant', m.merchant, 'paid_on', m.paid_on, 'paid_amount', money_json(m.paid_amount))), '[]')
          FROM money_bill_matches(lookback, of_payee) m WHERE NOT m.exact));
END
$$;

-- The dates of a series after one of them, up to a day.
CREATE FUNCTION money_later_dates(first date, frequency text, after date, until date)
RETURNS SETOF date
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    day date := after;
BEGIN
    IF shared.frequency_step(frequency) IS NOT NULL THEN
        LOOP
            day := shared.next_date(first, frequency, day);
            EXIT WHEN day > until;
            RETURN NEXT day;
        END LOOP;
    END IF;
END
$$;
