/*---
description: >-
  Change the state of a condition, or correct what is on record about it. Give only what changes; the rest stays. What
  it said before comes back as previous and is kept.
examples:
  - Update my asthma condition to managed
  - Change the status of my tendonitis condition to resolved
  - My sprained ankle has fully healed, mark it as over
  - Doctor says my high cholesterol is now well under control
  - The arthritis was actually diagnosed in 2019, correct that
args:
  condition_id: {type: string, format: uuid, required: true, description: "The id that condition_add or condition_list
    gave."}
  name: {type: string, description: "The right name."}
  status: {type: string, enum: [active, managed, resolved], description: "active: it troubles them; managed: under
    control; resolved: over."}
  diagnosed_at: {type: string, description: "The right day of the diagnosis, YYYY-MM-DD."}
  notes: {type: string, description: "The new notes, which replace the old ones; an empty text removes them."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
UPDATE conditions c
   SET name = coalesce(:name::text, c.name),
       status = coalesce(:status::text, c.status),
       diagnosed_at = coalesce(shared.moment('diagnosed_at', :diagnosed_at::text)::date, c.diagnosed_at),
       notes = nullif(coalesce(health_note('notes', :notes::text), c.notes), '')
 WHERE c.id = :condition_id::uuid AND health_known('condition', :condition_id::uuid, true) IS NOT NULL
RETURNING c.id, c.name, c.status, c.diagnosed_at, c.notes, c.revisions -> -1 AS previous;
