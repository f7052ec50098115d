/*---
description: >-
  The accounts that are known, with their ids, how many transactions each has and the day of the latest. For what
  stands on them use net_worth_history.
examples:
  - List all our accounts, even closed ones.
  - Which bank accounts and cards do you know?
  - At which banks are we customers, savings and loans included?
  - Is my Revolut card registered with you already?
  - I lost the overview of our credit cards and deposits, name them.
args:
  type: {type: string, enum: [checking, savings, credit, investment, loan, cash, other], description: "Only this
    kind."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
  include_closed: {type: boolean, default: false, description: "True lists closed accounts too."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT a.id, a.institution, a.type, a.name, a.last_four, a.currency, a.status, a.metadata,
       (SELECT count(*)::int FROM ledger l WHERE l.account_id = a.id) AS transactions,
       (SELECT max(l.day) FROM ledger l WHERE l.account_id = a.id) AS latest
  FROM accounts a
 WHERE money_filter(:currency::text, NULL)
   AND (:type::text IS NULL OR a.type = :type::text)
   AND (:currency::text IS NULL OR a.currency = upper(:currency::text))
   AND (:include_closed::boolean OR a.status = 'active')
 ORDER BY lower(a.institution), a.type, lower(a.name), a.id
 LIMIT :limit::int OFFSET :offset::int;
