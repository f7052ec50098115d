/*---
description: >-
  Keep track of what may count for the tax return. With transaction_ids it flags them (or takes the flag away);
  without it only lists. It returns the year's flagged transactions with their sum for each currency (refunds taken
  off), and candidates: unflagged ones of kinds that tax offices often accept. Whether they do is for the person or
  their adviser.
examples:
  - Flag the new desk as tax deductible.
  - Which expenses of 2025 are flagged as tax deductible?
  - My accountant wants to know what I could write off this year.
  - The donation to the Red Cross counts for my annual return, remember that.
  - That training course was for work, so the revenue office should see it.
args:
  year: {type: integer, minimum: 1950, maximum: 2200, description: "The year to list. Left out: this year."}
  transaction_ids: {type: array, items: {type: string, format: uuid}, description: "The transactions to flag, from
    list_transactions or the candidates."}
  deductible: {type: boolean, default: true, description: "False takes the flag away."}
  note: {type: string, maxLength: 500, description: "For what, such as home office."}
returns: value
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
SELECT money_tax(:year::int, :transaction_ids::uuid[], :deductible::boolean, :note::text) AS result;
