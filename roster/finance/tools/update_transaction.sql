/*---
description: >-
  Correct a transaction. Give only what changes; the rest stays. What it said before comes back as previous and is
  kept. For many transactions of one merchant use bulk_recategorize; for one that never happened delete_transaction.
examples:
  - Update that transaction, it was 45 euros, not 54.
  - Correct the date of the pharmacy transaction to Monday.
  - The bike repair wasn't leisure, file it under transport.
  - I mistyped the florist's name, it should be Blossom.
  - The cinema tickets were in dollars rather than euros, fix that.
args:
  transaction_id: {type: string, format: uuid, required: true, description: "From list_transactions."}
  category: {type: string, maxLength: 60, description: "The right category."}
  merchant: {type: string, maxLength: 200, description: "The right name."}
  description: {type: string, description: "The new description; an empty text removes it."}
  amount: {type: number, description: "The right amount, above zero."}
  currency: {type: string, description: "The right currency, ISO 4217."}
  posted_at: {type: string, description: "The right day or moment."}
  direction: {type: string, enum: [debit, credit], description: "The right direction."}
  payment_method: {type: string, maxLength: 100, description: "The right payment method; an empty text removes it."}
  account_id: {type: string, format: uuid, description: "The right account, from list_accounts."}
  tags: {type: array, items: {type: string}, description: "The new tags, which replace the old ones."}
  metadata: {type: object, description: "Keys to add or replace."}
  expected_version: {type: integer, description: "The version that list_transactions showed; if it changed since, the
    call is refused."}
  reason: {type: string, maxLength: 500, description: "Why, for the record."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.posted_at, t.merchant, t.amount, t.currency, t.direction, t.category, t.description, t.payment_method,
       t.account_id, t.tags, t.version, r.previous
  FROM transaction_update(:transaction_id::uuid, jsonb_build_object(
           'category', :category::text, 'merchant', :merchant::text, 'description', :description::text,
           'amount', :amount::numeric, 'currency', :currency::text, 'posted_at', :posted_at::text,
           'direction', :direction::text, 'payment_method', :payment_method::text, 'account_id', :account_id::text,
           'tags', :tags::jsonb, 'metadata', :metadata::jsonb), :expected_version::int, :reason::text) r,
       LATERAL (SELECT (r.entry).*) t;
