-- Which category a merchant's transactions belong to: learned from what was recorded, or laid down as a rule.

CREATE TABLE merchant_mappings (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    merchant_key text NOT NULL CHECK (merchant_key <> ''),
    category     text NOT NULL,
    source       text NOT NULL CHECK (source IN ('learned', 'rule')),
    transactions int NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL DEFAULT shared.clock(),
    updated_at   timestamptz,
    deleted_at   timestamptz
);
COMMENT ON COLUMN merchant_mappings.merchant_key IS
    'The merchant as money_merchant_key() writes it; of a rule it may hold * for any text.';
COMMENT ON COLUMN merchant_mappings.transactions IS 'On how many transactions a learned mapping rests.';

SELECT shared.tenant_table('merchant_mappings');

-- One mapping a merchant. A forgotten one keeps its row, so that learning does not bring it back.
CREATE UNIQUE INDEX merchant_mappings_one ON merchant_mappings (tenant_id, merchant_key);

-- A pattern that a model gave, for LIKE: any part of the name, * stands for any text.
CREATE FUNCTION money_pattern(argument text, given text)
RETURNS text
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    words CONSTANT text := lower(btrim(given));
BEGIN
    IF length(regexp_replace(words, '[^[:alnum:]]', '', 'g')) < 2 THEN
        RAISE EXCEPTION '% is "%". It needs at least two letters or digits of the merchant''s name.', argument, given
            USING ERRCODE = '22023';
    END IF;
    RETURN '%' || replace(replace(replace(replace(words, '\', '\\'), '%', '\%'), '_', '\_'), '*', '%') || '%';
END
$$;

-- The category for a merchant: by its own mapping, else by the rule whose pattern fits it most closely.
CREATE FUNCTION money_mapped_category(of_key text)
RETURNS text
LANGUAGE sql STABLE
SET search_path FROM CURRENT
AS $$
    SELECT m.category
      FROM merchant_mappings m
     WHERE m.deleted_at IS NULL
       AND (m.merchant_key = of_key
            OR m.source = 'rule' AND of_key LIKE money_pattern('merchant_pattern', m.merchant_key))
     ORDER BY m.source = 'rule' DESC, m.merchant_key = of_key DESC, length(m.merchant_key) DESC, m.merchant_key
     LIMIT 1
$$;

-- Learns from every merchant that fits the pattern, if there is one, with at least two categorised transactions, of
-- which four in five agree. Rules stay, and what was forgotten stays forgotten.
CREATE FUNCTION merchant_learn(fits text)
RETURNS SETOF merchant_mappings
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH counted AS (
        SELECT l.merchant_key, l.category, count(*) AS n, sum(count(*)) OVER (PARTITION BY l.merchant_key) AS of_all
          FROM ledger l
         WHERE l.category <> 'uncategorized' AND l.split_of IS NULL AND (fits IS NULL OR l.merchant_key LIKE fits)
         GROUP BY l.merchant_key, l.category
    )
    INSERT INTO merchant_mappings AS m (merchant_key, category, source, transactions)
    SELECT c.merchant_key, c.category, 'learned', c.n::int
      FROM counted c
     WHERE c.of_all >= 2 AND c.n >= c.of_all * 0.8
    ON CONFLICT (tenant_id, merchant_key) DO UPDATE
       SET category = excluded.category, transactions = excluded.transactions, updated_at = shared.clock()
     WHERE m.deleted_at IS NULL AND m.source = 'learned'
       AND (m.category, m.transactions) IS DISTINCT FROM (excluded.category, excluded.transactions)
    RETURNING m.*
$$;

-- Puts every transaction of the merchants that fit a pattern into one category; `dry_run` only tells which ones.
CREATE FUNCTION merchant_recategorize(pattern text, to_category text, dry_run boolean, create_rule boolean)
RETURNS jsonb
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    fits   CONSTANT text := money_pattern('merchant_pattern', pattern);
    target CONSTANT text := money_category(to_category);
    rule_key CONSTANT text := btrim(regexp_replace(lower(btrim(pattern)), '\s+', ' ', 'g'));
    shown  jsonb;
    ids    uuid[];
BEGIN
    IF target IS NULL THEN
        RAISE EXCEPTION 'new_category is empty. Name the category.' USING ERRCODE = '22023';
    END IF;
    SELECT array_agg(l.id), jsonb_agg(DISTINCT l.merchant) INTO ids, shown
      FROM ledger l
     WHERE (lower(l.merchant) LIKE fits OR l.merchant_key LIKE fits) AND l.category <> target;
    IF ids IS NULL AND NOT create_rule
       AND NOT EXISTS (SELECT 1 FROM ledger l WHERE lower(l.merchant) LIKE fits OR l.merchant_key LIKE fits) THEN
        RAISE EXCEPTION 'No transaction has a merchant like "%"; list_distinct_merchants shows how they are written.',
            pattern USING ERRCODE = '22023';
    END IF;
    IF NOT dry_run THEN
        UPDATE transactions t
           SET category = target,
               revisions = t.revisions || jsonb_build_object('category', t.category, 'until', shared.clock(),
                                                             'reason', 'bulk_recategorize')
         WHERE t.id = ANY (ids);
        IF create_rule THEN
            INSERT INTO merchant_mappings AS m (merchant_key, category, source)
            VALUES (rule_key, target, 'rule')
            ON CONFLICT (tenant_id, merchant_key) DO UPDATE
               SET category = excluded.category, source = 'rule', deleted_at = NULL, updated_at = shared.clock();
        END IF;
    END IF;
    RETURN jsonb_build_object('dry_run', dry_run, 'new_category', target, 'changed',
                              coalesce(array_length(ids, 1), 0), 'merchants', coalesce(shown, '[]'),
                              'rule', CASE WHEN create_rule AND NOT dry_run THEN rule_key END);
END
$$;

-- Forgets a mapping, or takes that back.
CREATE FUNCTION merchant_mapping_set(of_id uuid, forgotten boolean)
RETURNS merchant_mappings
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    changed merchant_mappings;
BEGIN
    UPDATE merchant_mappings m
       SET deleted_at = CASE WHEN forgotten THEN coalesce(m.deleted_at, shared.clock()) END
     WHERE m.id = of_id
    RETURNING m.* INTO changed;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'There is no mapping with that id; recall_merchant_mappings shows them.'
            USING ERRCODE = '22023';
    END IF;
    RETURN changed;
END
$$;
