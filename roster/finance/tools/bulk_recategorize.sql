/*---
description: >-
  Put all transactions of the merchants that fit a pattern into one category, and if wanted keep that as a rule for
  the future. Call it with dry_run first and tell the person which merchants are meant. It returns how many change and
  the merchants' names.
examples:
  - Recategorize all Amazon purchases as shopping.
  - Change the category of every Shell payment to transport in one go.
  - Everything from the pharmacy chain belongs under health, past ones too.
  - All those bakery visits sit in groceries; shift the lot to dining.
  - Every Ikea entry should count as housing, now and in future.
args:
  merchant_pattern: {type: string, required: true, maxLength: 100, description: "Any part of the merchant's name,
    upper or lower case; * stands for any text."}
  new_category: {type: string, required: true, maxLength: 60, description: "The category for all of them."}
  dry_run: {type: boolean, default: false, description: "True changes nothing and only tells what would."}
  create_rule: {type: boolean, default: false, description: "True also keeps the rule, so that new transactions get
    the category by themselves; recall_merchant_mappings shows it."}
returns: value
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
SELECT merchant_recategorize(:merchant_pattern::text, :new_category::text, :dry_run::boolean, :create_rule::boolean)
       AS result;
