/*---
description: The last measurement of each kind.
method: get
path: latest
returns: rows
card: {kind: table, title: Last measurements, columns: [what, reading, unit, measured_at]}
---*/
SELECT DISTINCT ON (m.kind) replace(m.kind, '_', ' ') AS what,
       (SELECT string_agg(m.value ->> k.field, '/' ORDER BY k.place) FROM measurement_kinds() k WHERE k.kind = m.kind)
           AS reading,
       m.unit, m.measured_at
  FROM measurements m
 WHERE m.deleted_at IS NULL
 ORDER BY m.kind, m.measured_at DESC, m.created_at DESC;
