/*---
description: >-
  What the subscriptions cost and what is odd about them: totals per month and year for each currency; for each active
  or paused one its yearly cost, its last charge in the ledger and findings (no_charge_found, price_differs,
  not_charged_lately, charged_though_paused, charged_though_cancelled); and untracked, the regular charges of the
  ledger that look like subscriptions but are not tracked. Use it for "what do I pay for all that" and before advising
  what could be cancelled.
examples:
  - Do a subscription audit.
  - Audit my subscriptions and tell me the yearly total.
  - What do I pay for all that streaming and software stuff annually?
  - Which memberships could I drop to save some money?
  - Am I still being charged for anything I quit or paused?
args:
  currency: {type: string, description: "Only this currency, ISO 4217."}
returns: value
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT money_subscription_audit(shared.currency('currency', :currency::text)) AS result;
