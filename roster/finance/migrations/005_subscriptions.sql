-- Subscriptions: what renews by itself, what it costs, and what it cost before.

CREATE TABLE subscriptions (
    id                uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    service           text NOT NULL CHECK (service <> ''),
    service_key       text NOT NULL,
    amount            numeric NOT NULL CHECK (amount >= 0),
    currency          text NOT NULL,
    frequency         text NOT NULL CHECK (shared.frequency_step(frequency) IS NOT NULL),
    renews_from       date NOT NULL,
    status            text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'cancelled')),
    auto_renew        boolean NOT NULL DEFAULT true,
    payment_method    text,
    account_id        uuid REFERENCES accounts (id),
    source_message_id text,
    cancelled_at      timestamptz,
    cancel_reason     text,
    prices            jsonb NOT NULL DEFAULT '[]',
    metadata          jsonb NOT NULL DEFAULT '{}',
    created_at        timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at        timestamptz,
    CHECK ((status = 'cancelled') = (cancelled_at IS NOT NULL))
);
COMMENT ON COLUMN subscriptions.renews_from IS 'A date of renewal; the later ones are counted from it.';
COMMENT ON COLUMN subscriptions.prices IS 'What it cost before each change, oldest first.';

SELECT shared.tenant_table('subscriptions');

CREATE UNIQUE INDEX subscriptions_one ON subscriptions (tenant_id, service_key);

CREATE FUNCTION subscription_before_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    NEW.service_key := lower(btrim(regexp_replace(NEW.service, '\s+', ' ', 'g')));
    IF TG_OP = 'UPDATE' THEN
        NEW.updated_at := shared.clock();
        IF (NEW.amount, NEW.currency, NEW.frequency) IS DISTINCT FROM (OLD.amount, OLD.currency, OLD.frequency) THEN
            NEW.prices := OLD.prices || jsonb_build_object('amount', money_json(OLD.amount), 'currency', OLD.currency,
                'frequency', OLD.frequency, 'until', shared.today());
        END IF;
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON subscriptions
    FOR EACH ROW EXECUTE FUNCTION subscription_before_write();
CREATE TRIGGER no_secrets BEFORE INSERT OR UPDATE ON subscriptions
    FOR EACH ROW EXECUTE FUNCTION money_no_secrets('service', 'payment_method', 'cancel_reason', 'metadata');

-- The next day on which a subscription renews or ends, today included; null for what is paused or cancelled.
CREATE FUNCTION money_renewal(s subscriptions)
RETURNS date
LANGUAGE sql STABLE
AS $$
    SELECT CASE WHEN s.status <> 'active' THEN NULL
                WHEN s.auto_renew THEN shared.next_date(s.renews_from, s.frequency, shared.today() - 1)
                ELSE s.renews_from END
$$;

-- What one period's price makes in a year.
CREATE FUNCTION money_yearly(amount numeric, frequency text)
RETURNS numeric
LANGUAGE sql IMMUTABLE
AS $$
    SELECT amount * CASE frequency WHEN 'daily' THEN 365 WHEN 'weekly' THEN 52 WHEN 'biweekly' THEN 26
                                   WHEN 'monthly' THEN 12 WHEN 'quarterly' THEN 4 WHEN 'semiannual' THEN 2 ELSE 1 END
$$;

-- Tracks a subscription, given as the arguments of track_subscription; the same service again is corrected.
CREATE FUNCTION subscription_track(given jsonb)
RETURNS TABLE (subscription subscriptions, already_tracked boolean, previous_amount numeric)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    old     subscriptions;
    called  CONSTANT text := nullif(btrim(regexp_replace(given ->> 'service', '\s+', ' ', 'g')), '');
    unit    CONSTANT text := shared.currency('currency', given ->> 'currency');
    price   CONSTANT numeric := shared.money('amount', (given ->> 'amount')::numeric, unit);
    renewal CONSTANT date := shared.day('next_renewal', given ->> 'next_renewal');
    account CONSTANT uuid := account_known((given ->> 'account_id')::uuid);
BEGIN
    given := jsonb_strip_nulls(given);
    IF called IS NULL THEN
        RAISE EXCEPTION 'service is empty. Name the service.' USING ERRCODE = '22023';
    END IF;
    SELECT * INTO old FROM subscriptions x WHERE x.service_key = lower(called);
    IF old.status = 'cancelled' AND NOT given ? 'status' THEN
        RAISE EXCEPTION '% was cancelled on %. If it runs again, call this with status active; if not, leave it as it '
            'is.',
            old.service, old.cancelled_at::date USING ERRCODE = '22023';
    ELSIF renewal < shared.today() AND NOT coalesce((given ->> 'auto_renew')::boolean, old.auto_renew, true)
          AND coalesce(given ->> 'status', 'active') = 'active' THEN
        RAISE EXCEPTION 'next_renewal % is past and it does not renew by itself, so it has ended. Give the date until '
            'which it is paid, or status cancelled.', renewal USING ERRCODE = '22023';
    END IF;
    already_tracked := old.id IS NOT NULL;
    previous_amount := CASE WHEN (old.amount, old.currency) IS DISTINCT FROM (price, unit) THEN old.amount END;
    INSERT INTO subscriptions AS x (service, service_key, amount, currency, frequency, renews_from, status, auto_renew,
                                    payment_method, account_id, source_message_id, cancelled_at, metadata)
    VALUES (called, lower(called), price, unit, given ->> 'frequency', renewal, coalesce(given ->> 'status', 'active'),
            coalesce((given ->> 'auto_renew')::boolean, true), nullif(btrim(given ->> 'payment_method'), ''), account,
            given ->> 'source_message_id', CASE WHEN given ->> 'status' = 'cancelled' THEN shared.clock() END,
            coalesce(given -> 'metadata', '{}'))
    ON CONFLICT (tenant_id, service_key) DO UPDATE
       SET service = excluded.service, amount = excluded.amount, currency = excluded.currency,
           frequency = excluded.frequency, renews_from = excluded.renews_from,
           status = coalesce(given ->> 'status', x.status),
           auto_renew = coalesce((given ->> 'auto_renew')::boolean, x.auto_renew),
           payment_method = coalesce(excluded.payment_method, x.payment_method),
           account_id = coalesce(excluded.account_id, x.account_id),
           source_message_id = coalesce(excluded.source_message_id, x.source_message_id),
           cancelled_at = CASE WHEN coalesce(given ->> 'status', x.status) = 'cancelled'
                               THEN coalesce(x.cancelled_at, shared.clock()) END,
           metadata = x.metadata || excluded.metadata
    RETURNING x.* INTO subscription;
    RETURN NEXT;
END
$$;

-- Takes note that a subscription was cancelled, or takes that back.
CREATE FUNCTION subscription_end(of_id uuid, ended boolean, because text)
RETURNS TABLE (subscription subscriptions, changed boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    old subscriptions;
BEGIN
    SELECT * INTO old FROM subscriptions x WHERE x.id = of_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no subscription with that id; list_subscriptions shows them.' USING ERRCODE = '22023';
    END IF;
    changed := (old.status = 'cancelled') <> ended;
    IF changed THEN
        UPDATE subscriptions x
           SET status = CASE WHEN ended THEN 'cancelled' ELSE 'active' END,
               cancelled_at = CASE WHEN ended THEN shared.clock() END,
               cancel_reason = CASE WHEN ended THEN nullif(btrim(because), '') END
         WHERE x.id = of_id;
    END IF;
    SELECT * INTO subscription FROM subscriptions x WHERE x.id = of_id;
    RETURN NEXT;
END
$$;
