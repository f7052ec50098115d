/*---
description: >-
  What became dearer or cheaper: regular charges whose price was steady and then changed (found_in transactions), and
  subscriptions whose price was changed on record (found_in subscription), newest first. Bills that differ every time
  are no price change.
examples:
  - Detect price changes in our regular charges.
  - Which subscriptions changed their price recently?
  - Has streaming quietly become more expensive since spring?
  - Who has been raising fees on us behind our backs?
  - Is my phone plan dearer or cheaper than before Christmas?
args:
  days_back: {type: integer, default: 60, minimum: 1, maximum: 730, description: "How many days back the change lies
    at most."}
  currency: {type: string, description: "Only this currency, ISO 4217."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT c.merchant, c.currency, c.frequency, c.old_amount, c.new_amount, c.change, c.change_percent, c.since, c.found_in
  FROM money_price_changes(:days_back::int) c
 WHERE money_filter(:currency::text, NULL) AND (:currency::text IS NULL OR c.currency = upper(:currency::text))
 ORDER BY c.since DESC, c.merchant, c.found_in
 LIMIT :limit::int OFFSET :offset::int;
