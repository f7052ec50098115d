/*---
description: >-
  Record one transaction: money that went out (debit) or came in (credit). Use it for a receipt, a payment or income
  that the person or a mail tells of; for a whole list use bulk_record_transactions, for what is still to be paid
  track_bill. It returns the stored row; already_recorded is true if the very same one was there before, which is then
  kept once. Left without category it takes the one learned for the merchant (category_from is mapping) or
  "uncategorized".
examples:
  - Record a transaction of 23 euros at Rewe today.
  - Please record that grandma gave me a hundred in cash.
  - I just had lunch for 14 euros at the noodle bar.
  - The garage took 380 for new brakes, I paid by card.
  - My sister gave back the sixty pounds for the festival.
args:
  posted_at: {type: string, description: "When it was booked: a day (2026-03-31) or a moment in RFC 3339 with its
    offset, not in the future. Left out: today."}
  merchant: {type: string, required: true, maxLength: 200, description: "Who was paid, or who paid, by name."}
  amount: {type: number, required: true, description: "How much, above zero, with no more decimals than the currency
    has. Which way it went is said by direction."}
  currency: {type: string, required: true, description: "ISO 4217, such as EUR."}
  category: {type: string, maxLength: 60, description: "groceries, dining, transport, housing, utilities, insurance,
    health, subscriptions, shopping, entertainment, travel, education, gifts, fees, taxes, income, or another word
    that the person uses. transfer is for moving money between own accounts: it counts neither as spending nor as
    income."}
  direction: {type: string, enum: [debit, credit], default: debit, description: "debit: money went out. credit: money
    came in, refunds too."}
  description: {type: string, description: "What it was for, in a few words."}
  payment_method: {type: string, maxLength: 100, description: "Such as card, cash, direct debit, PayPal. No card
    numbers."}
  account_id: {type: string, format: uuid, description: "The account, from list_accounts."}
  receipt_url: {type: string, description: "Where the receipt is."}
  external_ref: {type: string, maxLength: 200, description: "The bank's own reference of this booking."}
  source_message_id: {type: string, maxLength: 500, description: "The message that it was read from."}
  tags: {type: array, items: {type: string}, description: "Words to find it by, such as a trip or a project."}
  metadata: {type: object, description: "Anything else worth keeping. No card or account numbers."}
  repeat: {type: boolean, default: false, description: "True records it although the very same one is there: a second
    purchase that is the same in all."}
returns: row
meta: {reads_private: true, effect: once}
---*/
SELECT t.id, t.posted_at, t.merchant, t.amount, t.currency, t.direction, t.category, r.category_from, t.description,
       t.account_id, t.tags, r.already_recorded
  FROM transaction_record(jsonb_strip_nulls(jsonb_build_object(
           'posted_at', coalesce(:posted_at::text, shared.today()::text), 'merchant', :merchant::text,
           'amount', :amount::numeric,
           'currency', :currency::text, 'category', :category::text, 'direction', :direction::text,
           'description', :description::text, 'payment_method', :payment_method::text, 'account_id', :account_id::text,
           'receipt_url', :receipt_url::text, 'external_ref', :external_ref::text,
           'source_message_id', :source_message_id::text, 'tags', :tags::jsonb, 'metadata', :metadata::jsonb,
           'repeat', :repeat::boolean))) r,
       LATERAL (SELECT (r.entry).*) t;
