/*---
description: >-
  Note that a loan was paid back in full, or with settled set to false that it wasn't after all. unchanged is true if it
  was so already. Of a part that was paid back: settle the loan, and create a new one over the rest.
examples:
  - Settle the loan with Robin.
  - Mark the loan to Bettina as paid back.
  - Tom gave me back the thirty bucks for the concert.
  - I just wired Dad everything I owed him for the car repair.
  - Lara handed me the taxi money in cash, we are even now.
args:
  loan_id: {type: string, format: uuid, required: true, description: "The id that loan_create or loan_list gave."}
  settled: {type: boolean, default: true, description: "False opens a loan again that was settled by mistake."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT s.*, p.already AS unchanged
  FROM loan_paid(:loan_id::uuid, coalesce(:settled::boolean, true)) p, loan_shown(p.l) s;
