/*---
description: >-
  Divide a transaction into parts of different categories, such as a supermarket receipt into groceries and household.
  The parts must make up its amount exactly. They count in its place; restore_transaction with its id takes the split
  back.
examples:
  - Split the Costco transaction into groceries and household.
  - Split yesterday's 80 euros between gifts and clothing.
  - That drugstore receipt was half nappies, half perfume, divide it up.
  - Of the ninety at Walmart thirty were for garden tools.
  - The hotel charge contains breakfast and room, book the portions separately.
args:
  transaction_id: {type: string, format: uuid, required: true, description: "From list_transactions."}
  splits: {type: array, required: true, items: {type: object}, description: 'At least two parts, each {"amount":
    12.50, "category": "groceries"}, and as known "description" and "merchant".'}
returns: rows
meta: {reads_private: true, effect: once}
---*/
SELECT t.id, t.posted_at, t.merchant, t.amount, t.currency, t.direction, t.category, t.description, t.split_of
  FROM transaction_split(:transaction_id::uuid, :splits::jsonb) t;
