-- What the tools of every roster need for their arguments: moments and days that a model names, money, dates that come
-- again.
-- Runs as the owner role with search_path = shared.
--
-- Refusals are raised with SQLSTATE 22023 and written for the model that made the call: what was wrong, what to do
-- instead.

-- Ends the statement with a sentence for whoever called. In SQL it stands where a condition stands.
CREATE FUNCTION refuse(sentence text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RAISE EXCEPTION '%', sentence USING ERRCODE = '22023';
END $$;

-- A moment that a model named, or the beginning of a day of the owner's. Words such as "yesterday" are refused: the
-- server would take them from its own clock.
CREATE FUNCTION moment(argument text, given text) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF given IS NULL THEN
        RETURN NULL;
    ELSIF given ~ '^\d{4}-\d{2}-\d{2}$' OR given ~ '^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}' THEN
        RETURN given::timestamptz;
    END IF;
    RAISE EXCEPTION '% is "%". It must be a day (2026-03-31) or a moment with its offset (2026-03-31T07:30:00+02:00).',
        argument, given USING ERRCODE = '22023';
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
    RAISE EXCEPTION '% is "%", which is no day of the calendar or no time of day. Correct it.', argument, given
        USING ERRCODE = '22023';
END $$;

-- One end of a span: a day, which counts whole, or a moment, which counts too. The end is returned as the first instant
-- after the span, so that `<` is the comparison for both; no end given is no end.
CREATE FUNCTION bound(argument text, given text, is_end boolean) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF given IS NULL THEN
        RETURN CASE WHEN is_end THEN 'infinity' ELSE '-infinity' END;
    ELSIF is_end AND given ~ '^\d{4}-\d{2}-\d{2}$' THEN
        RETURN (shared.day(argument, given) + 1)::timestamptz;
    END IF;
    RETURN shared.moment(argument, given) + CASE WHEN is_end THEN interval '1 microsecond' ELSE interval '0' END;
END $$;

-- A day that a model named.
CREATE FUNCTION day(argument text, given text) RETURNS date LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF given IS NULL THEN
        RETURN NULL;
    ELSIF given ~ '^\d{4}-\d{2}-\d{2}$' THEN
        RETURN make_date(left(given, 4)::int, substr(given, 6, 2)::int, right(given, 2)::int);
    END IF;
    RAISE EXCEPTION '% is "%". It must be a day such as 2026-03-31.', argument, given USING ERRCODE = '22023';
EXCEPTION WHEN datetime_field_overflow THEN
    RAISE EXCEPTION '% is "%", which is no day of the calendar. Correct it.', argument, given USING ERRCODE = '22023';
END $$;

-- How many decimals the money of a currency has, by its ISO 4217 code; null: there is no such currency.
CREATE FUNCTION currency_digits(code text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN code = ANY (string_to_array('BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF', ' ')) THEN 0
        WHEN code = ANY (string_to_array('BHD IQD JOD KWD LYD OMR TND', ' ')) THEN 3
        WHEN code = ANY (string_to_array(
            'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY '
            'COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR '
            'ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK '
            'MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP '
            'SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XCD YER ZAR '
            'ZMW ZWG', ' ')) THEN 2
    END
$$;

-- A currency that a model named, as its ISO 4217 code.
CREATE FUNCTION currency(argument text, given text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF given IS NOT NULL AND shared.currency_digits(upper(given)) IS NULL THEN
        RAISE EXCEPTION '% is "%". It must be the three letters of a currency by ISO 4217, such as EUR, USD or CHF.',
            argument, given USING ERRCODE = '22023';
    END IF;
    RETURN upper(given);
END $$;

-- An amount of money, exact: not below zero, without more decimals than its currency has.
CREATE FUNCTION money(argument text, amount numeric, code text) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF amount < 0 THEN
        RAISE EXCEPTION '% is %. An amount is never below zero; which way the money went is said by its own argument.',
            argument, amount USING ERRCODE = '22023';
    ELSIF amount >= 1e15 OR amount::text = 'NaN' THEN
        RAISE EXCEPTION '% is %. That is no amount of money; check the digits.', argument, amount
            USING ERRCODE = '22023';
    ELSIF amount <> round(amount, shared.currency_digits(code)) THEN
        RAISE EXCEPTION '% is %, but % has % decimals. Give the exact amount.', argument, amount, code,
            shared.currency_digits(code) USING ERRCODE = '22023';
    END IF;
    RETURN round(amount, shared.currency_digits(code));
END $$;

-- How long one step of a frequency is; null: it does not come again.
CREATE FUNCTION frequency_step(frequency text) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE frequency
        WHEN 'daily' THEN interval '1 day' WHEN 'weekly' THEN interval '7 days' WHEN 'biweekly' THEN interval '14 days'
        WHEN 'monthly' THEN interval '1 month' WHEN 'quarterly' THEN interval '3 months'
        WHEN 'semiannual' THEN interval '6 months' WHEN 'yearly' THEN interval '1 year' END
$$;

-- The first date after `after` of those that begin with `first` and come again by `frequency` (daily, weekly, biweekly,
-- monthly, quarterly, semiannual, yearly). Counted from the first one, so that the 31st stays the last day of each month
-- and 29 February comes back. Null: there is none.
CREATE FUNCTION next_date(first date, frequency text, after date) RETURNS date LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    step CONSTANT interval := shared.frequency_step(frequency);
    months CONSTANT int := extract(year FROM step) * 12 + extract(month FROM step);
    n int;
BEGIN
    IF first > after THEN
        RETURN first;
    ELSIF step IS NULL THEN
        RETURN NULL;
    ELSIF months = 0 THEN
        n := (after - first) / extract(day FROM step)::int;
    ELSE
        n := ((extract(year FROM after) - extract(year FROM first)) * 12
              + extract(month FROM after) - extract(month FROM first))::int / months - 1;
    END IF;
    n := greatest(n, 0);
    WHILE (first + step * n)::date <= after LOOP
        n := n + 1;
    END LOOP;
    RETURN (first + step * n)::date;
END $$;

-- The next time a day of the year comes, today included; 29 February is kept on the 28th in years that have none.
CREATE FUNCTION next_anniversary(month integer, day integer, today date) RETURNS date LANGUAGE sql IMMUTABLE AS $$
    SELECT min(d) FROM (
        SELECT make_date(y, month, least(day, extract(day FROM make_date(y, month, 1) + interval '1 month -1 day')::int)) AS d
          FROM generate_series(extract(year FROM today)::int, extract(year FROM today)::int + 1) y
    ) years WHERE d >= today
$$;
