/*---
description: The people whom it is time to hear from, the longest first.
method: get
path: overdue
returns: rows
card: {kind: table, title: Not heard from, columns: [name, days_since, days_overdue]}
---*/
SELECT o.contact_id, o.name, o.last_contact_at, o.days_since, o.days_overdue
  FROM contacts_overdue(NULL, 1000, 0) o;
