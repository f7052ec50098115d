/*---
description: >-
  Transactions, newest first, narrowed by whatever is given. Use it to find single entries and their ids; for sums use
  spending_summary. If as many rows come back as limit allows there may be more: ask again with offset.
examples:
  - List the transactions of last Tuesday.
  - Show every transaction above 200 euros in March.
  - What exactly did I buy at the hardware store yesterday?
  - Has the refund for the boots arrived on our giro yet?
  - Find the payment for the concert tickets, sometime around Easter.
args:
  start_date: {type: string, description: "First day, YYYY-MM-DD in the owner's time zone, or a moment in RFC 3339.
    Leave it out for no lower end."}
  end_date: {type: string, description: "Last day, which counts whole, or a moment. Leave it out for no upper end."}
  category: {type: string, description: "Exactly this category."}
  merchant: {type: string, description: "Any part of the merchant's name; * stands for any text."}
  account_id: {type: string, format: uuid, description: "Only this account, from list_accounts."}
  min_amount: {type: number, description: "At least this amount."}
  max_amount: {type: number, description: "At most this amount."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
  direction: {type: string, enum: [debit, credit], description: "debit: money out. credit: money in."}
  tags: {type: array, items: {type: string}, description: "Only what has at least one of these tags."}
  deleted: {type: boolean, default: false, description: "True lists what was deleted, merged or split instead, for
    restore_transaction."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT t.id, t.posted_at, t.merchant, t.amount, t.currency, t.direction, t.category, t.description, t.payment_method,
       t.account_id, t.tags, t.tax_deductible, t.receipt_url, t.external_ref, t.split_of, t.version, t.deleted_why
  FROM transactions t
 WHERE money_span(:start_date::text, :end_date::text) AND money_filter(:currency::text, :account_id::uuid)
   AND t.posted_at >= shared.bound('start_date', :start_date::text, false)
   AND t.posted_at < shared.bound('end_date', :end_date::text, true)
   AND (t.deleted_at IS NOT NULL) = :deleted::boolean AND t.deleted_why IS DISTINCT FROM 'unsplit'
   AND (:category::text IS NULL OR t.category = money_category(:category::text))
   AND (:merchant::text IS NULL OR t.merchant ILIKE money_pattern('merchant', :merchant::text))
   AND (:account_id::uuid IS NULL OR t.account_id = :account_id::uuid)
   AND (:currency::text IS NULL OR t.currency = upper(:currency::text))
   AND (:min_amount::numeric IS NULL OR t.amount >= :min_amount::numeric)
   AND (:max_amount::numeric IS NULL OR t.amount <= :max_amount::numeric)
   AND (:direction::text IS NULL OR t.direction = :direction::text)
   AND (:tags::jsonb IS NULL OR t.tags && money_tags(:tags::jsonb))
 ORDER BY t.posted_at DESC, t.id
 LIMIT :limit::int OFFSET :offset::int;
