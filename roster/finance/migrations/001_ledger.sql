-- Accounts and transactions.
--
-- An amount is an exact decimal and never stands without its currency; nothing here adds up amounts of two currencies.
-- Which way the money went is said by `direction`, so that an amount is never below zero. A transaction that no longer
-- counts keeps its row: `deleted_at` says since when, `deleted_why` how (deleted, merged into another, split into
-- parts, or a part of a split that was taken back).
--
-- Refusals are raised with SQLSTATE 22023 and written for the model that made the call: what was wrong, what to do
-- instead.

-- What a text holds that is not kept here: the number of a card, or of an account. Null: neither.
CREATE FUNCTION money_secret(given text)
RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    -- How long an IBAN is, by country. The length and the check digits together tell it from an order number.
    lengths CONSTANT jsonb := '{"AD":24,"AE":23,"AL":28,"AT":20,"AZ":28,"BA":20,"BE":16,"BG":22,"BH":22,"BR":29,"CH":21,
        "CR":22,"CY":28,"CZ":24,"DE":22,"DK":18,"EE":20,"EG":29,"ES":24,"FI":18,"FO":18,"FR":27,"GB":22,"GE":22,"GI":23,
        "GL":18,"GR":27,"HR":21,"HU":28,"IE":22,"IL":23,"IS":26,"IT":27,"JO":30,"KW":30,"KZ":20,"LB":28,"LI":21,"LT":20,
        "LU":20,"LV":21,"MC":27,"MD":24,"ME":22,"MK":19,"MT":31,"NL":18,"NO":15,"PL":28,"PT":25,"QA":29,"RO":24,"RS":22,
        "SA":24,"SE":24,"SI":19,"SK":24,"SM":27,"TN":24,"TR":26,"UA":29,"XK":20}';
    found  text;
    digits text;
    total  int;
BEGIN
    FOR found IN SELECT m[1] FROM regexp_matches(given, '(?<![0-9A-Za-z])(\d(?:[ -]?\d){12,18})(?![0-9A-Za-z])', 'g') m
    LOOP
        digits := regexp_replace(found, '\D', '', 'g');
        CONTINUE WHEN digits !~ ('^(4\d{12}(\d{3})?(\d{3})?|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3[068]\d{12}'
                                 || '|35\d{14}|6\d{15,18})$');
        -- The check digit of a card: from the right, every second digit doubled, its digits added.
        SELECT sum(CASE WHEN (length(digits) - place) % 2 = 0 THEN d ELSE (2 * d) / 10 + (2 * d) % 10 END) INTO total
          FROM (SELECT place, substr(digits, place, 1)::int AS d FROM generate_series(1, length(digits)) place) each;
        IF total % 10 = 0 THEN
            RETURN 'card';
        END IF;
    END LOOP;

    FOR found IN
        SELECT upper(substr(given, place, 50)) FROM generate_series(1, length(given) - 14) place
         WHERE substr(given, place, 4) ~ '^[A-Za-z]{2}\d{2}$'
           AND (place = 1 OR substr(given, place - 1, 1) !~ '[0-9A-Za-z]')
    LOOP
        digits := left(regexp_replace(found, '[ -]', '', 'g'), (lengths ->> left(found, 2))::int);
        CONTINUE WHEN digits IS NULL OR digits !~ ('^[A-Z0-9]{' || (lengths ->> left(found, 2)) || '}$');
        SELECT string_agg(CASE WHEN c ~ '\d' THEN c ELSE (ascii(c) - 55)::text END, '' ORDER BY place) INTO digits
          FROM regexp_split_to_table(substr(digits, 5) || left(digits, 4), '') WITH ORDINALITY each(c, place);
        IF digits::numeric % 97 = 1 THEN
            RETURN 'iban';
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

-- Refuses a row whose texts hold such a number or are too long. Its arguments are the columns to look at.
CREATE FUNCTION money_no_secrets()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    columns CONSTANT jsonb := to_jsonb(NEW);
    field   text;
    given   text;
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    FOREACH field IN ARRAY TG_ARGV LOOP
        given := columns ->> field;
        CONTINUE WHEN given IS NULL;
        IF length(given) > 2000 THEN
            RAISE EXCEPTION '% has % characters; at most 2000 are kept. Shorten it.', field, length(given)
                USING ERRCODE = '22023';
        END IF;
        CASE money_secret(given)
            WHEN 'card' THEN
                RAISE EXCEPTION '% holds the number of a card. Card numbers are not kept; leave it out, or write its '
                    'last four digits only.', field USING ERRCODE = '22023';
            WHEN 'iban' THEN
                RAISE EXCEPTION '% holds a whole IBAN. An account is kept by its last four digits only (last_four of '
                    'track_account).', field USING ERRCODE = '22023';
            ELSE
        END CASE;
    END LOOP;
    RETURN NEW;
END
$$;

-- A number in JSON, or its digits as text where a reader's floating point would lose some.
CREATE FUNCTION money_json(n numeric)
RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT CASE WHEN length(regexp_replace(trim_scale(n)::text, '\D', '', 'g')) <= 15 THEN to_jsonb(trim_scale(n))
                  ELSE to_jsonb(trim_scale(n)::text) END $$;

-- An amount for people, with as many decimals as its currency has.
CREATE FUNCTION money_text(amount numeric, of_currency text)
RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT round(amount, shared.currency_digits(of_currency))::text $$;

-- A category as it is kept: lower case, single blanks.
CREATE FUNCTION money_category(given text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT nullif(lower(btrim(regexp_replace(given, '\s+', ' ', 'g'))), '') $$;

-- What a merchant is told apart by, however a bank writes it: without the prefix of a payment service, numbers, legal
-- forms and signs. "PAYPAL *NETFLIX.COM 4029357733" and "Netflix" are one.
CREATE FUNCTION money_merchant_key(given text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT coalesce(nullif(string_agg(word, ' ' ORDER BY place), ''), lower(btrim(given)))
      FROM regexp_split_to_table(
               regexp_replace(lower(btrim(given)),
                              '^(paypal|pp|sq|sumup|sp|izettle|zettle|stripe|klarna|google|amzn mktp)\s*\*\s*', ''),
               '[^[:alnum:]äöüßéèêàâçñáíóúøåæ&]+') WITH ORDINALITY words(word, place)
     WHERE word <> '' AND word !~ '\d{3,}' AND word !~ '^\d+$'
       AND word NOT IN ('gmbh', 'ag', 'kg', 'ug', 'ev', 'inc', 'ltd', 'llc', 'sa', 'sarl', 'bv', 'co', 'corp', 'plc',
                        'com', 'de', 'www', 'the')
$$;

CREATE TABLE accounts (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    institution text NOT NULL CHECK (institution <> ''),
    type        text NOT NULL
                CHECK (type IN ('checking', 'savings', 'credit', 'investment', 'loan', 'cash', 'other')),
    name        text,
    last_four   text CHECK (last_four ~ '^[0-9A-Z]{4}$'),
    currency    text NOT NULL,
    status      text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'closed')),
    metadata    jsonb NOT NULL DEFAULT '{}',
    created_at  timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at  timestamptz
);
COMMENT ON COLUMN accounts.last_four IS 'The end of the number. The whole number is never kept.';

SELECT shared.tenant_table('accounts');

-- An account is told apart by these, so that naming it twice keeps one row.
CREATE UNIQUE INDEX accounts_one ON accounts
    (tenant_id, lower(institution), type, coalesce(last_four, ''), coalesce(lower(name), ''), currency);

CREATE TRIGGER no_secrets BEFORE INSERT OR UPDATE ON accounts
    FOR EACH ROW EXECUTE FUNCTION money_no_secrets('institution', 'name', 'metadata');

CREATE TABLE transactions (
    id                uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    account_id        uuid REFERENCES accounts (id),
    posted_at         timestamptz NOT NULL,
    merchant          text NOT NULL CHECK (merchant <> ''),
    merchant_key      text NOT NULL,
    description       text,
    amount            numeric NOT NULL CHECK (amount > 0),
    currency          text NOT NULL,
    direction         text NOT NULL CHECK (direction IN ('debit', 'credit')),
    category          text NOT NULL,
    payment_method    text,
    receipt_url       text,
    external_ref      text,
    source_message_id text,
    source            text,
    tags              text[] NOT NULL DEFAULT '{}',
    tax_deductible    boolean NOT NULL DEFAULT false,
    tax_note          text,
    metadata          jsonb NOT NULL DEFAULT '{}',
    copy              int NOT NULL DEFAULT 0,
    split_of          uuid REFERENCES transactions (id),
    merged_into       uuid REFERENCES transactions (id),
    version           int NOT NULL DEFAULT 1,
    revisions         jsonb NOT NULL DEFAULT '[]',
    created_at        timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at        timestamptz,
    deleted_at        timestamptz,
    deleted_why       text CHECK (deleted_why IN ('deleted', 'merged', 'split', 'unsplit')),
    CHECK ((deleted_at IS NULL) = (deleted_why IS NULL))
);
COMMENT ON COLUMN transactions.merchant_key IS 'The merchant without what banks add to it; set by the trigger.';
COMMENT ON COLUMN transactions.copy IS 'Counts purchases that are the same in all else and were recorded on purpose.';
COMMENT ON COLUMN transactions.revisions IS 'What the row said before each correction, oldest first.';

SELECT shared.tenant_table('transactions');

-- A transaction is told apart by these, so that recording it twice keeps one row: also when it was merged or split
-- since.
CREATE UNIQUE INDEX transactions_one ON transactions
    (tenant_id, posted_at, lower(merchant), amount, currency, direction,
     coalesce(account_id, '00000000-0000-0000-0000-000000000000'), coalesce(external_ref, ''), copy)
    WHERE split_of IS NULL AND coalesce(deleted_why, '') <> 'deleted';
CREATE INDEX transactions_by_time ON transactions (tenant_id, posted_at);
CREATE INDEX transactions_by_merchant ON transactions (tenant_id, merchant_key, posted_at);
CREATE INDEX transactions_by_message ON transactions (tenant_id, source_message_id) WHERE source_message_id IS NOT NULL;
CREATE INDEX transactions_by_split ON transactions (tenant_id, split_of) WHERE split_of IS NOT NULL;

CREATE FUNCTION transaction_before_write()
RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF shared.undoing() THEN
        RETURN NEW;
    END IF;
    NEW.merchant_key := money_merchant_key(NEW.merchant);
    IF NEW.posted_at::date > shared.today() THEN
        RAISE EXCEPTION 'posted_at is %, which is still to come. A transaction has happened; what is due later is '
            'kept with track_bill or track_subscription.', NEW.posted_at::date USING ERRCODE = '22023';
    ELSIF NEW.posted_at < '1950-01-01' THEN
        RAISE EXCEPTION 'posted_at is %. Check the year.', NEW.posted_at::date USING ERRCODE = '22023';
    END IF;
    IF TG_OP = 'UPDATE' THEN
        NEW.version := OLD.version + 1;
        NEW.updated_at := shared.clock();
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER before_write BEFORE INSERT OR UPDATE ON transactions
    FOR EACH ROW EXECUTE FUNCTION transaction_before_write();
CREATE TRIGGER no_secrets BEFORE INSERT OR UPDATE ON transactions
    FOR EACH ROW EXECUTE FUNCTION money_no_secrets('merchant', 'description', 'payment_method', 'tags', 'tax_note',
                                                   'metadata');

-- The transactions that count, with the owner's day of each.
CREATE VIEW ledger WITH (security_invoker = true) AS
    SELECT t.*, t.posted_at::date AS day, t.category <> 'transfer' AS counts
      FROM transactions t
     WHERE t.deleted_at IS NULL;
COMMENT ON VIEW ledger IS 'What counts. A transfer between the owner''s own accounts is neither spending nor income.';

-- The account with this id, or a refusal.
CREATE FUNCTION account_known(of_id uuid)
RETURNS uuid
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    IF of_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM accounts a WHERE a.id = of_id) THEN
        RAISE EXCEPTION 'There is no account with that id; list_accounts shows them.' USING ERRCODE = '22023';
    END IF;
    RETURN of_id;
END
$$;

-- Names an account, or says more about one that is known already.
CREATE FUNCTION account_track(of_id uuid, of_institution text, of_type text, of_currency text, of_name text,
                              of_last_four text, of_status text, of_metadata jsonb)
RETURNS TABLE (account accounts, already_tracked boolean)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    unit CONSTANT text := shared.currency('currency', of_currency);
    tail CONSTANT text := upper(right(regexp_replace(of_last_four, '[^0-9A-Za-z]', '', 'g'), 4));
BEGIN
    IF length(regexp_replace(of_last_four, '[^0-9A-Za-z]', '', 'g')) <> 4 THEN
        RAISE EXCEPTION 'last_four is % characters long. Give exactly the last four of the number, nothing else of it.',
            length(of_last_four) USING ERRCODE = '22023';
    ELSIF btrim(of_institution) = '' THEN
        RAISE EXCEPTION 'institution is empty. Name the bank, the card or the purse.' USING ERRCODE = '22023';
    END IF;
    IF of_id IS NOT NULL THEN
        PERFORM account_known(of_id);
        IF unit <> (SELECT a.currency FROM accounts a WHERE a.id = of_id)
           AND EXISTS (SELECT 1 FROM transactions t WHERE t.account_id = of_id) THEN
            RAISE EXCEPTION 'The account has transactions, so its currency stays. Track another account for %.', unit
                USING ERRCODE = '22023';
        ELSIF EXISTS (SELECT 1 FROM accounts a
                       WHERE a.id <> of_id AND lower(a.institution) = lower(btrim(of_institution)) AND a.type = of_type
                         AND a.currency = unit AND (coalesce(a.last_four, ''), coalesce(lower(a.name), ''))
                           = (SELECT coalesce(tail, o.last_four, ''),
                                     coalesce(nullif(lower(btrim(of_name)), ''), lower(o.name), '')
                                FROM accounts o WHERE o.id = of_id)) THEN
            RAISE EXCEPTION 'Another account is just that already; list_accounts shows it. Nothing changed.'
                USING ERRCODE = '22023';
        END IF;
        RETURN QUERY
        UPDATE accounts a
           SET institution = btrim(of_institution), type = of_type, currency = unit,
               name = coalesce(nullif(btrim(of_name), ''), a.name), last_four = coalesce(tail, a.last_four),
               status = coalesce(of_status, a.status), metadata = a.metadata || coalesce(of_metadata, '{}'),
               updated_at = shared.clock()
         WHERE a.id = of_id
        RETURNING a, true;
        RETURN;
    END IF;
    RETURN QUERY
    INSERT INTO accounts AS a (institution, type, currency, name, last_four, status, metadata)
    VALUES (btrim(of_institution), of_type, unit, nullif(btrim(of_name), ''), tail, coalesce(of_status, 'active'),
            coalesce(of_metadata, '{}'))
    ON CONFLICT (tenant_id, lower(institution), type, coalesce(last_four, ''), coalesce(lower(name), ''), currency)
    DO UPDATE SET status = coalesce(of_status, a.status), metadata = a.metadata || excluded.metadata,
                  updated_at = shared.clock()
    RETURNING a, a.xmax <> 0;
END
$$;

-- True, or a refusal: the end of a span must not lie before its beginning.
CREATE FUNCTION money_span(start_date text, end_date text)
RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF shared.bound('end_date', end_date, true) <= shared.bound('start_date', start_date, false) THEN
        RAISE EXCEPTION 'end_date % lies before start_date %. Exchange them.', end_date, start_date
            USING ERRCODE = '22023';
    END IF;
    RETURN true;
END
$$;

-- True, or a refusal: what a list is narrowed to must be a currency, and an account that is known.
CREATE FUNCTION money_filter(of_currency text, of_account uuid)
RETURNS boolean
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT shared.currency('currency', of_currency) IS DISTINCT FROM ''
       AND account_known(of_account) IS NOT DISTINCT FROM of_account
$$;
