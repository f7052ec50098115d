/*---
description: >-
  Note money that was lent between the owner and a contact, or between two contacts. Either contact_id with direction, or
  lender_contact_id and borrower_contact_id, of which the one left out is the owner. It returns the row with its id;
  already_there is true if the same loan of the same day was open, which is then kept once: if it really is a second one,
  give it another description. A thing that was lent is a task_create or a note_create; a bill or a debt to a bank belongs
  to another butler.
examples:
  - "Create a loan: I lent Ahmed 50 euros."
  - Record a loan of 200 francs I got from Dad.
  - Tom still owes me thirty dollars for the concert.
  - I paid the taxi for Lara, 18 euros, she pays me back Friday.
  - My brother covered my train ticket, that makes 45 francs I owe him.
args:
  contact_id: {type: string, format: uuid, description: "With whom; from contact_search or contact_resolve."}
  direction: {type: string, enum: [lent, borrowed], description: "lent: the owner gave the money; borrowed: the owner got
    it."}
  amount: {type: number, description: "The exact amount in the currency, such as 20.50."}
  amount_cents: {type: integer, description: "In its place the amount in the smallest unit of the currency, 2050."}
  currency: {type: string, required: true, description: "The three letters of ISO 4217, such as EUR. If it was not said
    and can't be told, ask."}
  description: {type: string, description: "What for."}
  lender_contact_id: {type: string, format: uuid, description: "Who gave the money."}
  borrower_contact_id: {type: string, format: uuid, description: "Who got the money and owes it."}
  lent_on: {type: string, description: "The day, YYYY-MM-DD. Left out: today."}
  due_on: {type: string, description: "By which day it is to be paid back, YYYY-MM-DD, if that was agreed. Nobody is
    told then; for that take reminder_create."}
returns: row
meta: {reads_private: true, effect: once}
---*/
SELECT s.*, p.already AS already_there
  FROM loan_put(:contact_id::uuid, :amount::numeric, :direction::text, :description::text, :lender_contact_id::uuid,
                :borrower_contact_id::uuid, :amount_cents::bigint, :currency::text, :lent_on::text, :due_on::text) p,
       loan_shown(p.l) s;
