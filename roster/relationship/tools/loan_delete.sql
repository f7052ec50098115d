/*---
description: >-
  Take a loan out of the record that was never one. loan_restore with the same id brings it back. One that was paid back
  is settled with loan_settle instead.
examples:
  - Delete the loan to Jürgen, it was never one.
  - Remove the loan of 20 euros with Milena.
  - The money for Claire was a present, she owes me nothing, strike it.
  - You wrote down that debt twice, throw one of them away.
  - Erase the forty I supposedly borrowed from Max, that was somebody else.
args:
  loan_id: {type: string, format: uuid, required: true, description: "The id that loan_create or loan_list gave."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT s.*, p.deleted_at FROM loan_keep(:loan_id::uuid, true) p, loan_shown(p) s;
