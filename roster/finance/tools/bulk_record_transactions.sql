/*---
description: >-
  Record a list of transactions at once, at most 500, for example from a statement or a CSV file that you have read.
  All are recorded, or none: if lines are wrong each is named with its place (from 1) and what is wrong with it;
  correct them and send the whole list again. What is on record already is not recorded twice. It returns how many
  were recorded, which lines were known already, how many are uncategorized, and the ids.
examples:
  - Record all the transactions in this bank statement.
  - Import these forty transactions from the CSV file at once.
  - Here is the export from my bank, enter every line.
  - I kept a spreadsheet of vacation expenses, put the whole table into the ledger.
  - The PDF of my Visa month has dozens of rows; book them all.
args:
  transactions: {type: array, required: true, items: {type: object}, description: 'Each an object with the arguments
    of record_transaction: {"posted_at": "2026-03-31", "merchant": "Rewe", "amount": 23.40, "currency": "EUR"}, and as
    known direction, category, description, payment_method, account_id, external_ref, tags, metadata, repeat.'}
  account_id: {type: string, format: uuid, description: "The account of all lines that name none, from
    list_accounts."}
  source: {type: string, maxLength: 200, description: "Where the list comes from, such as the name of the file."}
returns: value
meta: {reads_private: true, effect: once}
---*/
SELECT transaction_record_all(:transactions::jsonb, :account_id::uuid, :source::text) AS result;
