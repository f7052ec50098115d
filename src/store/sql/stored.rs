//! What the files of a roster have left in a schema.

/// What may not stay (`problem`), and the bodies of functions, which the server does not look into (`body`). `$1`: the
/// schema; `$2`: the role that owns what a roster's files make; `$3`: names of the house's own functions; `$4`: what no
/// expression may name.
///
/// A function called like one of the server's or the house's would be found in its place by the house's own functions.
/// A cast, an operator or a rule works where nobody calls it.
pub(crate) const STORED: &str = "
    WITH place AS (SELECT n.oid AS nsp, o.oid AS owner FROM pg_catalog.pg_namespace n, pg_catalog.pg_roles o
                   WHERE n.nspname = $1 AND o.rolname = $2),
    routine AS (SELECT p.* FROM pg_catalog.pg_proc p, place WHERE p.pronamespace = place.nsp AND p.proowner = place.owner),
    relation AS (SELECT c.* FROM pg_catalog.pg_class c, place WHERE c.relnamespace = place.nsp AND c.relowner = place.owner),
    -- Materialized, or each expression of the whole database is written out and searched before the schema is asked.
    computed AS MATERIALIZED (
        SELECT c.relname, pg_get_expr(d.adbin, d.adrelid) AS text
          FROM pg_catalog.pg_attrdef d JOIN relation c ON c.oid = d.adrelid
        UNION ALL SELECT c.relname, pg_get_constraintdef(k.oid)
          FROM pg_catalog.pg_constraint k JOIN relation c ON c.oid = k.conrelid WHERE k.contype = 'c'
        UNION ALL SELECT t.typname, pg_get_constraintdef(k.oid)
          FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_type t ON t.oid = k.contypid JOIN place ON t.typnamespace = place.nsp
        UNION ALL SELECT t.typname, t.typdefault
          FROM pg_catalog.pg_type t JOIN place ON t.typnamespace = place.nsp WHERE t.typdefault IS NOT NULL
        UNION ALL SELECT c.relname, pg_get_indexdef(i.indexrelid)
          FROM pg_catalog.pg_index i JOIN relation c ON c.oid = i.indrelid WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
        UNION ALL SELECT c.relname, pg_get_viewdef(c.oid) FROM relation c WHERE c.relkind IN ('v', 'm')
        UNION ALL SELECT c.relname, pg_get_triggerdef(t.oid)
          FROM pg_catalog.pg_trigger t JOIN relation c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal
        UNION ALL SELECT p.proname, pg_get_function_sqlbody(p.oid) FROM routine p WHERE p.prosqlbody IS NOT NULL
        UNION ALL SELECT p.proname, pg_get_function_arguments(p.oid) FROM routine p WHERE p.pronargdefaults > 0),
    policy AS MATERIALIZED (
        SELECT t.relname, t.is_house, p.polcmd, p.polpermissive, p.polroles,
               pg_get_expr(p.polqual, p.polrelid) AS qual, pg_get_expr(p.polwithcheck, p.polrelid) AS withcheck
          FROM (SELECT c.oid, c.relname, false AS is_house FROM relation c
                UNION ALL SELECT s.oid, s.relname, true FROM pg_catalog.pg_class s, place
                           WHERE s.relnamespace = place.nsp AND s.relname = 'state' AND s.relowner <> place.owner) t
          JOIN pg_catalog.pg_policy p ON p.polrelid = t.oid)
    SELECT p.proname || '()' AS relation, CASE
               WHEN p.prosecdef THEN 'is SECURITY DEFINER, which would run with the owner''s rights'
               WHEN (SELECT l.lanname FROM pg_catalog.pg_language l WHERE l.oid = p.prolang) NOT IN ('sql', 'plpgsql')
                    AND p.prokind <> 'a' THEN 'is neither in SQL nor in PL/pgSQL'
               WHEN EXISTS (SELECT 1 FROM unnest(p.proconfig) s WHERE split_part(s, '=', 1) NOT IN ('search_path', 'jit',
                            'work_mem', 'plan_cache_mode') AND s NOT LIKE 'enable\\_%') THEN 'has a SET besides search_path'
               WHEN p.proname = ANY ($3::text[]) OR EXISTS (
                    SELECT 1 FROM pg_catalog.pg_proc o JOIN pg_catalog.pg_namespace n ON n.oid = o.pronamespace
                    WHERE o.proname = p.proname AND n.nspname IN ('pg_catalog', 'shared'))
                    THEN 'has the name of a function of the server or of butlerd; choose another'
           END AS problem,
           CASE WHEN p.prosrc = '' OR p.prokind = 'a' THEN NULL ELSE p.prosrc END AS body
      FROM routine p
    UNION ALL
    SELECT a.aggfnoid::text || '()', 'is an aggregate of ' || f.proname, NULL
      FROM pg_catalog.pg_aggregate a JOIN routine p ON p.oid = a.aggfnoid
      JOIN pg_catalog.pg_proc f ON f.oid IN (a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn,
                                             a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn)
     WHERE f.proname ~ $4
    UNION ALL
    SELECT o.oprname::text, 'is an operator of its own; call a function', NULL
      FROM pg_catalog.pg_operator o, place WHERE o.oprnamespace = place.nsp
    UNION ALL
    SELECT k.castsource::regtype::text || ' to ' || k.casttarget::regtype::text, 'is a cast of its own; call a function',
           NULL
      FROM pg_catalog.pg_cast k JOIN pg_catalog.pg_type t ON t.oid IN (k.castsource, k.casttarget), place
     WHERE t.typnamespace = place.nsp OR t.typowner = place.owner
    UNION ALL
    SELECT c.relname::text, 'has a rule; use a trigger', NULL
      FROM pg_catalog.pg_rewrite r JOIN pg_catalog.pg_class c ON c.oid = r.ev_class, place
     WHERE c.relnamespace = place.nsp AND r.rulename <> '_RETURN'
    UNION ALL
    SELECT c.relname::text, 'has a trigger that can be deferred', NULL
      FROM pg_catalog.pg_trigger t JOIN relation c ON c.oid = t.tgrelid WHERE t.tgdeferrable AND NOT t.tgisinternal
    UNION ALL
    SELECT computed.relname::text, 'computes with ' || substring(computed.text FROM $4) || ', which nothing stored may', NULL
      FROM computed WHERE computed.text ~ $4
    UNION ALL
    SELECT c.relname::text, CASE c.relkind WHEN 'v' THEN 'is a view with its owner''s rights; add WITH (security_invoker = true)'
                                           ELSE 'is a copy of rows that no policy guards; use a table or a view' END, NULL
      FROM relation c
     WHERE c.relkind IN ('m', 'f') OR c.relkind = 'v'
           AND NOT coalesce(c.reloptions, '{}') && ARRAY['security_invoker=true', 'security_invoker=on']
    UNION ALL
    SELECT c.relname::text, 'has no tenant', NULL FROM relation c
     WHERE c.relkind IN ('r', 'p') AND NOT (c.relrowsecurity
           AND (SELECT count(*) FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid) = 1
           AND EXISTS (SELECT 1 FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'tenant'))
    UNION ALL
    SELECT p.relname::text, 'has a policy of its own; SELECT shared.tenant_table makes the only one', NULL
      FROM policy p, policy house
     WHERE house.is_house AND NOT p.is_house
       AND (p.polcmd, p.polpermissive, p.polroles, p.qual, p.withcheck)
           IS DISTINCT FROM (house.polcmd, house.polpermissive, house.polroles, house.qual, house.withcheck)";

/// A SHA-256 over the server's rows about whatever [`STORED`] looks at: any change of a thing makes its row anew, under
/// the number of another transaction. `$1`: the schema; `$2`: what else must be the same. With `looked`: whether the
/// last look was at the same. It reads some thousand short rows, where the look writes out each expression of the
/// schema.
pub(crate) const CATALOG: &str = "
    WITH place AS MATERIALIZED (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname IN ($1, 'shared')),
    relation AS MATERIALIZED (SELECT c.oid, c.xmin FROM pg_catalog.pg_class c WHERE c.relnamespace IN (TABLE place)),
    routine AS MATERIALIZED (SELECT p.oid, p.xmin FROM pg_catalog.pg_proc p WHERE p.pronamespace IN (TABLE place)),
    kind AS MATERIALIZED (SELECT t.oid, t.xmin FROM pg_catalog.pg_type t WHERE t.typnamespace IN (TABLE place)),
    seen AS (SELECT pg_catalog.sha256(pg_catalog.convert_to($2 || pg_catalog.string_agg(
               things.what || things.id || '.' || things.xmin, ' ' ORDER BY things.what, things.id), 'UTF8')) AS digest FROM (
        SELECT 'relation' AS what, oid AS id, xmin::text FROM relation
        UNION ALL SELECT 'routine', oid, xmin::text FROM routine
        UNION ALL SELECT 'type', oid, xmin::text FROM kind
        UNION ALL SELECT 'constraint', oid, xmin::text FROM pg_catalog.pg_constraint WHERE connamespace IN (TABLE place)
        UNION ALL SELECT 'operator', oid, xmin::text FROM pg_catalog.pg_operator WHERE oprnamespace IN (TABLE place)
        UNION ALL SELECT 'cast', oid, xmin::text FROM pg_catalog.pg_cast
        UNION ALL SELECT 'default', d.oid, d.xmin::text FROM pg_catalog.pg_attrdef d JOIN relation r ON r.oid = d.adrelid
        UNION ALL SELECT 'trigger', d.oid, d.xmin::text FROM pg_catalog.pg_trigger d JOIN relation r ON r.oid = d.tgrelid
        UNION ALL SELECT 'policy', d.oid, d.xmin::text FROM pg_catalog.pg_policy d JOIN relation r ON r.oid = d.polrelid
        UNION ALL SELECT 'rule', d.oid, d.xmin::text FROM pg_catalog.pg_rewrite d JOIN relation r ON r.oid = d.ev_class
        UNION ALL SELECT 'index', d.indexrelid, d.xmin::text FROM pg_catalog.pg_index d JOIN relation r ON r.oid = d.indrelid
        UNION ALL SELECT 'aggregate', d.aggfnoid, d.xmin::text FROM pg_catalog.pg_aggregate d JOIN routine r ON r.oid = d.aggfnoid
        ) things)
    SELECT seen.digest, seen.digest IS NOT DISTINCT FROM
           (SELECT r.looked FROM shared.butler_roles r WHERE r.schema = $1) AS looked FROM seen";

/// Notes that a look at a schema found nothing that may not stay.
pub(crate) const LOOKED: &str = "UPDATE shared.butler_roles SET looked = $2 WHERE schema = $1";
