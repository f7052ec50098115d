/*---
description: >-
  The merchants on record, most frequent first: how their name is written, how many transactions in which currencies,
  first and last day, their most common category, and the category that new transactions would get (mapped_category).
examples:
  - List all distinct merchants with their counts.
  - Which merchants appear in more than one spelling?
  - In which shops do we buy most often?
  - Give me an overview of every store and firm we ever paid.
  - Where was I a customer between May and July, each name once?
args:
  start_date: {type: string, description: "First day, YYYY-MM-DD. Leave it out for no lower end."}
  end_date: {type: string, description: "Last day, which counts whole. Leave it out for no upper end."}
  min_count: {type: integer, default: 1, minimum: 1, description: "Only merchants with at least so many
    transactions."}
  unnormalized_only: {type: boolean, default: false, description: "True shows only merchants whose name stands in more
    than one spelling."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT l.merchant_key, array_agg(DISTINCT l.merchant ORDER BY l.merchant) AS spellings, count(*)::int AS count,
       array_agg(DISTINCT l.currency ORDER BY l.currency) AS currencies, min(l.day) AS first_day,
       max(l.day) AS last_day,
       mode() WITHIN GROUP (ORDER BY l.category) AS category, money_mapped_category(l.merchant_key) AS mapped_category
  FROM ledger l
 WHERE money_span(:start_date::text, :end_date::text)
   AND l.posted_at >= shared.bound('start_date', :start_date::text, false)
   AND l.posted_at < shared.bound('end_date', :end_date::text, true)
 GROUP BY l.merchant_key
HAVING count(*) >= :min_count::int AND (NOT :unnormalized_only::boolean OR count(DISTINCT l.merchant) > 1)
 ORDER BY count(*) DESC, l.merchant_key
 LIMIT :limit::int OFFSET :offset::int;
