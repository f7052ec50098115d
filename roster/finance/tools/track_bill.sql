/*---
description: >-
  Track a bill: what is to be paid, to whom, and by when. Use it when the person or a mail tells of one, and to
  correct one. The same payee and due date again corrects the one there (already_tracked is true, previous_amount and
  previous_due_date say what changed); a recurring bill that was only expected about then becomes the real one. When
  it has been paid use mark_bill_paid. It pays nothing.
examples:
  - Track the water bill, 85 euros due on the 15th.
  - "Add a bill: 240 to the dentist by Friday."
  - The roofer sent an invoice, 310 euros to pay before June ends.
  - Rent of 950 must go out on the first of each month.
  - The speeding fine is forty and they want it within two weeks.
args:
  payee: {type: string, required: true, maxLength: 200, description: "Who is to be paid. It is only noted:
    nothing is paid."}
  amount: {type: number, required: true, description: "How much, above zero."}
  currency: {type: string, required: true, description: "ISO 4217, such as EUR."}
  due_date: {type: string, required: true, description: "By when, YYYY-MM-DD."}
  frequency: {type: string, enum: [one_time, daily, weekly, biweekly, monthly, quarterly, semiannual, yearly],
    description: "How often it comes again; once paid, the next one is made by itself. Left out: one_time."}
  status: {type: string, enum: [pending, paid, cancelled], description: "Left out: pending. cancelled for a bill that
    need not be paid; pending opens it again. Whether it is overdue is told from the date."}
  payment_method: {type: string, maxLength: 100, description: "How it is paid. No card numbers."}
  account_id: {type: string, format: uuid, description: "From which account, from list_accounts."}
  statement_period_start: {type: string, description: "First day of what is billed, YYYY-MM-DD."}
  statement_period_end: {type: string, description: "Last day of what is billed, YYYY-MM-DD."}
  paid_at: {type: string, description: "With status paid: when, a day or a moment."}
  source_message_id: {type: string, maxLength: 500, description: "The message that it was read from."}
  metadata: {type: object, description: "Anything else worth keeping, such as an invoice number."}
  autopay: {type: boolean, description: "True if it is debited by itself: reminders then only say so."}
  predicted: {type: boolean, description: "True if the amount is only expected."}
  bill_id: {type: string, format: uuid, description: "The bill to correct, from upcoming_bills or list_bills, when its
    payee or due date was wrong. Leave it out for a new one."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.payee, t.amount, t.currency, t.due_date, t.frequency, t.status, t.autopay, t.predicted, t.paid_at,
       t.account_id, r.already_tracked, r.previous_amount, r.previous_due_date
  FROM bill_track(jsonb_strip_nulls(jsonb_build_object(
           'payee', :payee::text, 'amount', :amount::numeric, 'currency', :currency::text, 'due_date', :due_date::text,
           'frequency', :frequency::text, 'status', :status::text, 'payment_method', :payment_method::text,
           'account_id', :account_id::text, 'statement_period_start', :statement_period_start::text,
           'statement_period_end', :statement_period_end::text, 'paid_at', :paid_at::text,
           'source_message_id', :source_message_id::text, 'metadata', :metadata::jsonb, 'autopay', :autopay::boolean,
           'predicted', :predicted::boolean, 'bill_id', :bill_id::text))) r,
       LATERAL (SELECT (r.bill).*) t;
