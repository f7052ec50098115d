/*---
description: Documents, those that end first at the top.
method: get
path: documents
returns: rows
card: {kind: table, title: Documents, columns: [document, expiry_date, days_left]}
---*/
SELECT d.id, document_label(d) AS document, d.expiry_date, d.expiry_date - shared.today() AS days_left, d.trip_id
  FROM documents d
 WHERE d.deleted_at IS NULL
 ORDER BY d.expiry_date NULLS LAST, d.type, d.holder, d.id;
