/*---
description: The accounts that are known.
method: get
path: accounts
returns: rows
---*/
SELECT a.id, a.institution, a.type, a.name, a.last_four, a.currency, a.status
  FROM accounts a
 ORDER BY a.status, lower(a.institution), a.type, lower(a.name), a.id;
