/*---
description: >-
  What is still owed between the owner and each contact, by currency: owed_to_owner, owed_by_owner and the balance of the
  two, which is above zero if the contact owes the owner. Amounts of different currencies are never added. Loans between
  two contacts don't count here.
examples:
  - What is my loan balance with Tom?
  - Show the balance of loans with everyone.
  - How much does Vincent owe me altogether?
  - Am I in debt to my sister or is she to me?
  - Are Kathrin and I quits, money-wise?
args:
  contact_id: {type: string, format: uuid, description: "With whom. Leave it out for all."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT c.id AS contact_id, c.name AS contact_name, l.currency,
       coalesce(sum(l.amount) FILTER (WHERE l.lender_contact_id IS NULL), 0) AS owed_to_owner,
       coalesce(sum(l.amount) FILTER (WHERE l.borrower_contact_id IS NULL), 0) AS owed_by_owner,
       sum(CASE WHEN l.lender_contact_id IS NULL THEN l.amount ELSE -l.amount END) AS balance,
       count(*)::int AS open_loans
  FROM loans l
  JOIN contacts c ON c.id = coalesce(l.lender_contact_id, l.borrower_contact_id)
 WHERE asks_about(:contact_id::uuid)
   AND num_nulls(l.lender_contact_id, l.borrower_contact_id) = 1
   AND c.id = coalesce((SELECT contact_there('contact_id', :contact_id::uuid)), c.id)
   AND l.settled_at IS NULL AND l.deleted_at IS NULL
 GROUP BY c.id, c.name, l.currency
 ORDER BY c.name, c.id, l.currency
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
