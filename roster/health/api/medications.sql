/*---
description: >-
  What is taken: dosage, the next dose that is due, and what is left of the stock.
method: get
path: medications
args:
  stopped: {type: boolean, default: false, description: "True lists the stopped ones too."}
returns: rows
card: {kind: table, title: Medications, columns: [name, dosage, next_dose_at, stock_left, runs_out_on]}
---*/
SELECT m.id, m.name, m.dosage, m.frequency, m.schedule, m.active, medication_next(m.id) AS next_dose_at, s.stock_left,
       s.runs_out_on
  FROM medications m LEFT JOIN LATERAL medication_stock(m.id) s ON m.active
 WHERE m.active OR :stopped::boolean
 ORDER BY m.active DESC, lower(m.name), m.id;
