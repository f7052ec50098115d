/*---
description: >-
  Bring back a deleted loan. loan_list with deleted set to true lists them.
args:
  loan_id: {type: string, format: uuid, required: true, description: "The id of the deleted loan."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT s.* FROM loan_keep(:loan_id::uuid, false) p, loan_shown(p) s;
