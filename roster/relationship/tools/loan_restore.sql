/*---
description: >-
  Bring back a deleted loan. loan_list with deleted set to true lists them.
examples:
  - Restore the loan to Erika that I deleted.
  - Bring back the deleted loan over 120 francs.
  - It was no present after all, Claire does owe me that, undo the deletion.
  - I wiped the debt to my neighbour by mistake, put it back.
  - The forty euros with Max that we erased were real, return them.
args:
  loan_id: {type: string, format: uuid, required: true, description: "The id of the deleted loan."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT s.* FROM loan_keep(:loan_id::uuid, false) p, loan_shown(p) s;
