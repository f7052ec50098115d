-- Recording transactions, correcting them, and taking them out of the ledger without losing them.

-- The transaction with this id if it counts, or a refusal that says what became of it.
CREATE FUNCTION transaction_live(argument text, of_id uuid)
RETURNS transactions
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    t transactions;
BEGIN
    SELECT * INTO t FROM transactions x WHERE x.id = of_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no transaction with the id in %; list_transactions shows them.', argument
            USING ERRCODE = '22023';
    ELSIF t.deleted_at IS NOT NULL THEN
        RAISE EXCEPTION 'The transaction % no longer counts (%). %', of_id,
            CASE t.deleted_why WHEN 'merged' THEN 'merged into ' || t.merged_into WHEN 'split' THEN 'split into parts'
                 WHEN 'unsplit' THEN 'a part of a split that was taken back' ELSE 'deleted' END,
            CASE t.deleted_why WHEN 'unsplit' THEN 'Use the transaction it was a part of.'
                 ELSE 'restore_transaction brings it back.' END
            USING ERRCODE = '22023';
    END IF;
    RETURN t;
END
$$;

-- Records one transaction, given as the arguments of record_transaction. The same one again keeps one row, unless
-- `repeat` says that it was a second purchase.
CREATE FUNCTION transaction_record(given jsonb)
RETURNS TABLE (entry transactions, already_recorded boolean, category_from text)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    known  CONSTANT text[] := '{posted_at,merchant,amount,currency,category,direction,description,payment_method,
        account_id,receipt_url,external_ref,source_message_id,tags,metadata,repeat,source}';
    stray  text;
    raw    numeric;
    t      transactions;
BEGIN
    SELECT string_agg(format('"%s"', k), ', ') INTO stray FROM jsonb_object_keys(given) k WHERE k <> ALL (known);
    IF stray IS NOT NULL THEN
        RAISE EXCEPTION '% is no part of a transaction. Its parts are %.', stray, array_to_string(known, ', ')
            USING ERRCODE = '22023';
    END IF;
    SELECT string_agg(k, ', ') INTO stray
      FROM unnest(ARRAY['posted_at', 'merchant', 'amount', 'currency']) k WHERE coalesce(btrim(given ->> k), '') = '';
    IF stray IS NOT NULL THEN
        RAISE EXCEPTION '% is missing. A transaction needs posted_at, merchant, amount and currency.', stray
            USING ERRCODE = '22023';
    END IF;

    BEGIN
        raw := (given ->> 'amount')::numeric;
    EXCEPTION WHEN invalid_text_representation THEN
        RAISE EXCEPTION 'amount is "%". It must be a number such as 19.90, without a sign for the currency.',
            given ->> 'amount' USING ERRCODE = '22023';
    END;
    t.currency := shared.currency('currency', btrim(given ->> 'currency'));
    t.direction := coalesce(given ->> 'direction', 'debit');
    IF t.direction NOT IN ('debit', 'credit') THEN
        RAISE EXCEPTION 'direction is "%". It must be debit (money went out) or credit (money came in).', t.direction
            USING ERRCODE = '22023';
    END IF;
    t.amount := shared.money('amount', raw, t.currency);
    IF t.amount = 0 THEN
        RAISE EXCEPTION 'amount is 0. A transaction moves money; without any there is nothing to record.'
            USING ERRCODE = '22023';
    END IF;
    t.posted_at := shared.moment('posted_at', given ->> 'posted_at');
    t.merchant := btrim(regexp_replace(given ->> 'merchant', '\s+', ' ', 'g'));
    BEGIN
        t.account_id := account_known((given ->> 'account_id')::uuid);
    EXCEPTION WHEN invalid_text_representation THEN
        RAISE EXCEPTION 'account_id is "%", which is no id; list_accounts shows them.', given ->> 'account_id'
            USING ERRCODE = '22023';
    END;
    t.external_ref := nullif(btrim(given ->> 'external_ref'), '');
    t.source_message_id := nullif(btrim(given ->> 'source_message_id'), '');

    -- Two calls that record the same at once come here one after the other.
    PERFORM pg_advisory_xact_lock(
        hashtextextended('finance transactions ' || current_setting('butlerd.tenant', true), 0));
    SELECT x.* INTO entry
      FROM transactions x
     WHERE x.split_of IS NULL AND coalesce(x.deleted_why, '') <> 'deleted'
       -- Said by itself, for the indexes: under the tenants' policy they serve no condition that calls a function.
       AND (x.posted_at = t.posted_at OR x.source_message_id = t.source_message_id)
       AND lower(x.merchant) = lower(t.merchant) AND x.amount = t.amount AND x.currency = t.currency
       AND x.direction = t.direction
       AND (x.posted_at = t.posted_at AND x.account_id IS NOT DISTINCT FROM t.account_id
            AND x.external_ref IS NOT DISTINCT FROM t.external_ref
            OR x.source_message_id = t.source_message_id AND x.posted_at::date = t.posted_at::date)
     ORDER BY x.copy DESC, x.created_at DESC, x.id
     LIMIT 1;
    IF FOUND AND NOT coalesce((given ->> 'repeat')::boolean, false) THEN
        already_recorded := true;
        RETURN NEXT;
        RETURN;
    END IF;
    t.copy := CASE WHEN FOUND THEN 1 + (
        SELECT coalesce(max(x.copy), 0) FROM transactions x
         WHERE lower(x.merchant) = lower(t.merchant) AND x.amount = t.amount AND x.posted_at = t.posted_at) ELSE 0 END;

    t.category := money_category(given ->> 'category');
    category_from := 'given';
    IF t.category IS NULL THEN
        t.category := money_mapped_category(money_merchant_key(t.merchant));
        category_from := CASE WHEN t.category IS NULL THEN 'unknown' ELSE 'mapping' END;
    END IF;
    INSERT INTO transactions AS x (account_id, posted_at, merchant, merchant_key, description, amount, currency,
                                   direction, category, payment_method, receipt_url, external_ref, source_message_id,
                                   source, tags, metadata, copy)
    VALUES (t.account_id, t.posted_at, t.merchant, '', nullif(btrim(given ->> 'description'), ''), t.amount, t.currency,
            t.direction, coalesce(t.category, 'uncategorized'), nullif(btrim(given ->> 'payment_method'), ''),
            nullif(btrim(given ->> 'receipt_url'), ''), t.external_ref, t.source_message_id,
            nullif(btrim(given ->> 'source'), ''), money_tags(given -> 'tags'),
            CASE WHEN jsonb_typeof(given -> 'metadata') = 'object' THEN given -> 'metadata' ELSE '{}' END, t.copy)
    RETURNING x.* INTO entry;
    already_recorded := false;
    RETURN NEXT;
END
$$;

-- A list of tags as it is kept: lower case, each once.
CREATE FUNCTION money_tags(given jsonb)
RETURNS text[]
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF coalesce(jsonb_typeof(given), 'null') NOT IN ('null', 'array') THEN
        RAISE EXCEPTION 'tags must be a list of words, such as ["holiday", "rome"].' USING ERRCODE = '22023';
    ELSIF jsonb_typeof(given) = 'array' THEN
        RETURN coalesce((SELECT array_agg(DISTINCT lower(btrim(tag)) ORDER BY lower(btrim(tag)))
                           FROM jsonb_array_elements_text(given) tag WHERE btrim(tag) <> ''), '{}');
    END IF;
    RETURN '{}';
END
$$;

-- Records a list of transactions: all, or none if one of them is wrong; each wrong one is named by its place, from 1.
CREATE FUNCTION transaction_record_all(list jsonb, of_account uuid, of_source text)
RETURNS jsonb
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    line  jsonb;
    place bigint;
    done  record;
    wrong text[] := '{}';
    made  jsonb := '[]';
    known jsonb := '[]';
    plain int := 0;
BEGIN
    IF jsonb_typeof(list) <> 'array' OR jsonb_array_length(list) = 0 THEN
        RAISE EXCEPTION 'transactions must be a list with at least one transaction.' USING ERRCODE = '22023';
    ELSIF jsonb_array_length(list) > 500 THEN
        RAISE EXCEPTION 'transactions has % lines; at most 500 are recorded in one call. Send the rest in further '
            'calls.',
            jsonb_array_length(list) USING ERRCODE = '22023';
    END IF;
    PERFORM account_known(of_account);
    FOR line, place IN SELECT value, ordinality FROM jsonb_array_elements(list) WITH ORDINALITY LOOP
        BEGIN
            IF jsonb_typeof(line) <> 'object' THEN
                RAISE EXCEPTION 'it is not an object.' USING ERRCODE = '22023';
            END IF;
            SELECT * INTO done FROM transaction_record(
                jsonb_strip_nulls(jsonb_build_object('account_id', of_account, 'source', of_source)) || line);
            IF done.already_recorded THEN
                known := known || to_jsonb(place);
            ELSE
                made := made || to_jsonb((done.entry).id);
                plain := plain + ((done.entry).category = 'uncategorized')::int;
            END IF;
        EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
            wrong := wrong || format('line %s: %s', place, SQLERRM);
        END;
    END LOOP;
    IF wrong <> '{}' THEN
        RAISE EXCEPTION 'Nothing was recorded; % of % lines are wrong. %', cardinality(wrong), jsonb_array_length(list),
            array_to_string(wrong[1:20], ' ') USING ERRCODE = '22023';
    END IF;
    RETURN jsonb_build_object('recorded', jsonb_array_length(made), 'already_recorded', jsonb_array_length(known),
                              'already_recorded_lines', known, 'uncategorized', plain, 'ids', made);
END
$$;

-- Corrects a transaction. `change` holds what changes; what it said before is kept in its revisions.
CREATE FUNCTION transaction_update(of_id uuid, change jsonb, expected_version int, reason text)
RETURNS TABLE (entry transactions, previous jsonb)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    twin uuid;
    old  transactions := transaction_live('transaction_id', of_id);
    unit CONSTANT text := coalesce(shared.currency('currency', change ->> 'currency'), old.currency);
    worth CONSTANT numeric := coalesce(shared.money('amount', (change ->> 'amount')::numeric, unit), old.amount);
BEGIN
    change := jsonb_strip_nulls(change);
    IF change = '{}' THEN
        RAISE EXCEPTION 'Nothing is to change. Give the fields that were wrong.' USING ERRCODE = '22023';
    ELSIF old.version <> expected_version THEN
        RAISE EXCEPTION 'The transaction has version % by now, not %. Look at it with list_transactions before you '
            'change it.',
            old.version, expected_version USING ERRCODE = '22023';
    ELSIF worth = 0 THEN
        RAISE EXCEPTION 'amount is 0. If it never happened, use delete_transaction.' USING ERRCODE = '22023';
    ELSIF old.split_of IS NOT NULL AND (change ? 'amount' OR change ? 'currency') THEN
        RAISE EXCEPTION 'It is a part of the split transaction %, whose parts make up its amount. restore_transaction '
            'with that id takes the split back.', old.split_of USING ERRCODE = '22023';
    ELSIF unit <> old.currency THEN
        PERFORM shared.money('amount', worth, unit);
    END IF;
    SELECT x.id INTO twin FROM transactions x
     WHERE x.id <> of_id AND old.split_of IS NULL AND x.split_of IS NULL AND coalesce(x.deleted_why, '') <> 'deleted'
       AND (x.posted_at, lower(x.merchant), x.amount, x.currency, x.direction, x.copy)
         = (coalesce(shared.moment('posted_at', change ->> 'posted_at'), old.posted_at),
            lower(coalesce(nullif(btrim(change ->> 'merchant'), ''), old.merchant)), worth, unit,
            coalesce(change ->> 'direction', old.direction), old.copy)
       AND x.account_id IS NOT DISTINCT FROM coalesce((change ->> 'account_id')::uuid, old.account_id)
       AND x.external_ref IS NOT DISTINCT FROM old.external_ref;
    IF FOUND THEN
        RAISE EXCEPTION 'Corrected so it would be the same as %, which is there already. If both are one purchase, use '
            'delete_transaction for this one. Nothing changed.', twin USING ERRCODE = '22023';
    END IF;
    SELECT jsonb_object_agg(k, to_jsonb(old) -> k) INTO previous FROM jsonb_object_keys(change) k;
    UPDATE transactions x
       SET posted_at = coalesce(shared.moment('posted_at', change ->> 'posted_at'), old.posted_at),
           merchant = coalesce(nullif(btrim(change ->> 'merchant'), ''), old.merchant),
           amount = worth,
           currency = unit,
           direction = coalesce(change ->> 'direction', old.direction),
           category = coalesce(money_category(change ->> 'category'), old.category),
           description = nullif(btrim(coalesce(change ->> 'description', old.description)), ''),
           payment_method = nullif(btrim(coalesce(change ->> 'payment_method', old.payment_method)), ''),
           account_id = coalesce(account_known((change ->> 'account_id')::uuid), old.account_id),
           tags = CASE WHEN change ? 'tags' THEN money_tags(change -> 'tags') ELSE old.tags END,
           metadata = old.metadata || coalesce(change -> 'metadata', '{}'),
           revisions = old.revisions || jsonb_build_object('until', shared.clock(), 'reason', reason, 'was', previous)
     WHERE x.id = of_id
    RETURNING x.* INTO entry;
    RETURN NEXT;
END
$$;

-- Takes a transaction out of the ledger.
CREATE FUNCTION transaction_delete(of_id uuid)
RETURNS transactions
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    t transactions;
BEGIN
    SELECT * INTO t FROM transactions x WHERE x.id = of_id AND x.deleted_why = 'deleted';
    IF FOUND THEN
        RETURN t;
    END IF;
    t := transaction_live('transaction_id', of_id);
    IF t.split_of IS NOT NULL THEN
        RAISE EXCEPTION 'It is a part of the split transaction %. restore_transaction with that id takes the split '
            'back; then the whole can be deleted.', t.split_of USING ERRCODE = '22023';
    END IF;
    UPDATE transactions x SET deleted_at = shared.clock(), deleted_why = 'deleted' WHERE x.id = of_id
        RETURNING x.* INTO t;
    RETURN t;
END
$$;

-- Brings a transaction back: one that was deleted, one that was merged, or one that was split, whose parts then go.
CREATE FUNCTION transaction_restore(of_id uuid)
RETURNS TABLE (entry transactions, was text, parts_removed int)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    old  transactions;
    twin uuid;
BEGIN
    SELECT * INTO old FROM transactions x WHERE x.id = of_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no transaction with that id; list_transactions with deleted set to true shows what '
            'can be restored.' USING ERRCODE = '22023';
    ELSIF old.deleted_why = 'unsplit' THEN
        RAISE EXCEPTION 'It was a part of a split that was taken back; the whole counts again, as %.', old.split_of
            USING ERRCODE = '22023';
    END IF;
    SELECT x.id INTO twin FROM transactions x
     WHERE old.deleted_why = 'deleted' AND x.id <> old.id AND x.split_of IS NULL
       AND coalesce(x.deleted_why, '') <> 'deleted'
       AND (x.posted_at, lower(x.merchant), x.amount, x.currency, x.direction, x.copy)
         = (old.posted_at, lower(old.merchant), old.amount, old.currency, old.direction, old.copy)
       AND x.account_id IS NOT DISTINCT FROM old.account_id AND x.external_ref IS NOT DISTINCT FROM old.external_ref;
    IF FOUND THEN
        RAISE EXCEPTION 'The same transaction was recorded again since, as %. Nothing changed.', twin
            USING ERRCODE = '22023';
    END IF;
    was := coalesce(old.deleted_why, 'not deleted');
    UPDATE transactions x SET deleted_at = shared.clock(), deleted_why = 'unsplit'
     WHERE old.deleted_why = 'split' AND x.split_of = of_id AND x.deleted_at IS NULL;
    GET DIAGNOSTICS parts_removed = ROW_COUNT;
    IF old.deleted_at IS NOT NULL THEN
        UPDATE transactions x SET deleted_at = NULL, deleted_why = NULL, merged_into = NULL WHERE x.id = of_id;
    END IF;
    SELECT * INTO entry FROM transactions x WHERE x.id = of_id;
    RETURN NEXT;
END
$$;

-- Makes one transaction of several that are the same purchase. What the kept one lacks it takes from the others.
CREATE FUNCTION transaction_merge(of_id uuid, duplicates uuid[])
RETURNS TABLE (entry transactions, merged int)
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    kept transactions := transaction_live('keep_id', of_id);
    twin transactions;
    one  uuid;
BEGIN
    merged := 0;
    IF coalesce(cardinality(duplicates), 0) = 0 THEN
        RAISE EXCEPTION 'duplicate_ids is empty. Name the transactions that are the same as keep_id; detect_duplicates '
            'finds them.' USING ERRCODE = '22023';
    ELSIF of_id = ANY (duplicates) THEN
        RAISE EXCEPTION 'keep_id stands among duplicate_ids. One of them must stay.' USING ERRCODE = '22023';
    END IF;
    FOR one IN SELECT DISTINCT d FROM unnest(duplicates) d ORDER BY d LOOP
        CONTINUE WHEN EXISTS (SELECT 1 FROM transactions x WHERE x.id = one AND x.merged_into = of_id);
        twin := transaction_live('duplicate_ids', one);
        IF (twin.amount, twin.currency, twin.direction)
           IS DISTINCT FROM (kept.amount, kept.currency, kept.direction) THEN
            RAISE EXCEPTION 'The transaction % is % % (%), the one to keep % % (%). Only the same amount the same way '
                'can be one purchase. Nothing was merged.', one, twin.amount, twin.currency, twin.direction,
                kept.amount, kept.currency, kept.direction USING ERRCODE = '22023';
        ELSIF twin.split_of IS NOT NULL THEN
            RAISE EXCEPTION 'The transaction % is a part of the split transaction %, which can not be merged.', one,
                twin.split_of USING ERRCODE = '22023';
        END IF;
        UPDATE transactions x
           SET description = coalesce(x.description, twin.description),
               receipt_url = coalesce(x.receipt_url, twin.receipt_url),
               payment_method = coalesce(x.payment_method, twin.payment_method),
               account_id = coalesce(x.account_id, twin.account_id),
               source_message_id = coalesce(x.source_message_id, twin.source_message_id),
               category = CASE WHEN x.category = 'uncategorized' THEN twin.category ELSE x.category END,
               tags = ARRAY(SELECT DISTINCT tag FROM unnest(x.tags || twin.tags) tag ORDER BY tag),
               tax_deductible = x.tax_deductible OR twin.tax_deductible, tax_note = coalesce(x.tax_note, twin.tax_note)
         WHERE x.id = of_id;
        UPDATE transactions x SET deleted_at = shared.clock(), deleted_why = 'merged', merged_into = of_id
         WHERE x.id = one;
        -- A bill that the other one paid is paid by this one.
        UPDATE bills b SET transaction_id = of_id
         WHERE b.transaction_id = one AND NOT EXISTS (SELECT 1 FROM bills o WHERE o.transaction_id = of_id);
        merged := merged + 1;
    END LOOP;
    SELECT * INTO entry FROM transactions x WHERE x.id = of_id;
    RETURN NEXT;
END
$$;

-- Divides a transaction into parts of their own categories; the parts must make up its amount exactly.
CREATE FUNCTION transaction_split(of_id uuid, splits jsonb)
RETURNS SETOF transactions
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    whole transactions := transaction_live('transaction_id', of_id);
    total numeric;
BEGIN
    IF whole.split_of IS NOT NULL THEN
        RAISE EXCEPTION 'It is a part of the split transaction % already. restore_transaction with that id takes the '
            'split back, so that it can be divided anew.', whole.split_of USING ERRCODE = '22023';
    ELSIF jsonb_typeof(splits) <> 'array' OR jsonb_array_length(splits) < 2 THEN
        RAISE EXCEPTION 'splits needs at least two parts, each {"amount": 12.50, "category": "groceries"}.'
            USING ERRCODE = '22023';
    ELSIF EXISTS (SELECT 1 FROM jsonb_array_elements(splits) s
                   WHERE jsonb_typeof(s) <> 'object' OR coalesce(s ->> 'amount', '') !~ '^\d+(\.\d+)?$'
                      OR (s ->> 'amount')::numeric = 0 OR money_category(s ->> 'category') IS NULL) THEN
        RAISE EXCEPTION 'Every part needs an amount above zero and a category: '
            '{"amount": 12.50, "category": "groceries"}.'
            USING ERRCODE = '22023';
    END IF;
    SELECT sum(shared.money('amount', (s ->> 'amount')::numeric, whole.currency)) INTO total
      FROM jsonb_array_elements(splits) s;
    IF total <> whole.amount THEN
        RAISE EXCEPTION 'The parts make % %, the transaction is % %. They must be the same; % % %.', total,
            whole.currency, whole.amount, whole.currency, abs(whole.amount - total), whole.currency,
            CASE WHEN total < whole.amount THEN 'are missing' ELSE 'are too much' END USING ERRCODE = '22023';
    END IF;
    UPDATE transactions x SET deleted_at = shared.clock(), deleted_why = 'split' WHERE x.id = of_id;
    RETURN QUERY
    INSERT INTO transactions AS x (account_id, posted_at, merchant, merchant_key, description, amount, currency,
                                   direction, category, payment_method, receipt_url, source_message_id, source, tags,
                                   metadata, split_of)
    SELECT whole.account_id, whole.posted_at, coalesce(nullif(btrim(s ->> 'merchant'), ''), whole.merchant), '',
           coalesce(nullif(btrim(s ->> 'description'), ''), whole.description),
           shared.money('amount', (s ->> 'amount')::numeric, whole.currency), whole.currency, whole.direction,
           money_category(s ->> 'category'), whole.payment_method, whole.receipt_url, whole.source_message_id,
           whole.source, whole.tags, whole.metadata, whole.id
      FROM jsonb_array_elements(splits) s
    RETURNING x.*;
END
$$;

-- The transactions with these ids, each of which must be there; without ids all that count.
CREATE FUNCTION money_transactions(ids uuid[])
RETURNS SETOF ledger
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    one uuid;
BEGIN
    FOREACH one IN ARRAY coalesce(ids, '{}') LOOP
        PERFORM transaction_live('transaction_ids', one);
    END LOOP;
    RETURN QUERY SELECT l.* FROM ledger l WHERE ids IS NULL OR l.id = ANY (ids);
END
$$;
