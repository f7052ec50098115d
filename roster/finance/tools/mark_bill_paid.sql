/*---
description: >-
  Note that a bill was paid. If it comes again the next one is made, with its date and the expected amount
  (next_bill). With transaction_id the transaction that paid it is linked. already_paid is true if it was paid before;
  nothing is doubled then. To find out which bills the ledger shows as paid use reconcile_bills. It moves no money.
examples:
  - Mark the electricity bill as paid.
  - I paid the phone bill this morning.
  - The rent went out by transfer today, tick it off.
  - I just settled the chimney sweep's invoice in cash.
  - The kindergarten got its money on Friday, slightly more than asked.
args:
  bill_id: {type: string, format: uuid, required: true, description: "From upcoming_bills or
    list_bills. It is only noted: no money moves."}
  paid_at: {type: string, description: "When: a day or a moment, not in the future. Left out: the transaction's time,
    else now."}
  transaction_id: {type: string, format: uuid, description: "The transaction that paid it, from list_transactions."}
  amount: {type: number, description: "What was really paid, if it was not the amount of the bill."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.payee, t.amount, t.currency, t.due_date, t.status, t.paid_at, t.paid_amount, t.transaction_id,
       r.already_paid,
       CASE WHEN (r.next_bill).id IS NOT NULL THEN
           jsonb_build_object('id', (r.next_bill).id, 'due_date', (r.next_bill).due_date,
                              'status', (r.next_bill).status,
                              'amount', money_json((r.next_bill).amount), 'currency', (r.next_bill).currency) END
                                  AS next_bill
  FROM bill_pay(:bill_id::uuid, :paid_at::text, :transaction_id::uuid, :amount::numeric) r,
       LATERAL (SELECT (r.bill).*) t;
