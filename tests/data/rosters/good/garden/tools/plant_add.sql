/*---
description: Put a plant on record.
args:
  name: {type: string, required: true, description: what people call it}
returns: row
---*/
INSERT INTO plants (name)
VALUES (:name)
RETURNING id, name, watered_at
