/*---
description: What is lent and borrowed and not settled yet.
method: get
path: loans
returns: rows
---*/
SELECT s.id, s.contact_name AS name, s.direction, s.amount, s.currency, s.description, s.lent_on, s.due_on, s.overdue
  FROM loans l CROSS JOIN LATERAL loan_shown(l) s
 WHERE l.deleted_at IS NULL AND l.settled_at IS NULL
 ORDER BY s.due_on NULLS LAST, s.lent_on, s.id;
