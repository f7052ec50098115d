/*---
description: >-
  Name an account (a bank account, card, loan or purse), so that transactions, bills and subscriptions can refer to
  it. It returns the row with its id; already_tracked is true if it was known, and is then kept once. With account_id
  it corrects that account or closes it.
examples:
  - Track my new savings account at ING.
  - Track our account at the credit union, it's a checking one.
  - I opened a giro with N26, so please know about it.
  - My wife has a fresh Mastercard ending in 4417.
  - We closed the building loan at Sparkasse, it is history now.
args:
  institution: {type: string, required: true, maxLength: 120, description: "The bank or provider."}
  type: {type: string, enum: [checking, savings, credit, investment, loan, cash, other], required: true, description:
    "What kind of account; credit is a credit card."}
  currency: {type: string, required: true, description: "ISO 4217, such as EUR."}
  name: {type: string, maxLength: 120, description: "What the person calls it."}
  last_four: {type: string, maxLength: 40, description: "Only the last four digits of the IBAN or card."}
  status: {type: string, enum: [active, closed], description: "closed for an account that is no more; its transactions
    stay."}
  account_id: {type: string, format: uuid, description: "The account to correct, from list_accounts. Leave it out for
    a new one."}
  metadata: {type: object, description: "Anything else worth keeping. No card or account numbers."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT t.id, t.institution, t.type, t.name, t.last_four, t.currency, t.status, r.already_tracked
  FROM account_track(:account_id::uuid, :institution::text, :type::text, :currency::text, :name::text, :last_four::text,
                     :status::text, :metadata::jsonb) r,
       LATERAL (SELECT (r.account).*) t;
