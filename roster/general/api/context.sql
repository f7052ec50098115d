/*---
description: What the owner's days are like just now, and until when.
method: get
path: context
returns: rows
card: {kind: table, title: Just now, columns: [signal, value, expires_at]}
---*/
SELECT s.signal_type AS signal, s.value, s.set_at, s.expires_at
  FROM context_signals s
 WHERE s.ended_at IS NULL AND s.expires_at > shared.clock()
 ORDER BY s.signal_type;
