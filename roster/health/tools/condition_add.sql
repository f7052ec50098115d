/*---
description: >-
  Put a condition on record: a diagnosis, an allergy, an injury, a pregnancy. Only what the person says that they have
  or had; never conclude one from symptoms or measurements. Returns the row with its id; already_listed is true if it
  was on record before, which is then kept once.
examples:
  - Please add asthma to my health conditions
  - Put my peanut allergy on record as a condition
  - My dermatologist says these flaky elbows are psoriasis
  - Turns out I'm expecting, twelve weeks along already
  - The X-ray showed I broke my wrist skiing
args:
  name: {type: string, required: true, description: "What it is called, in the person's words: migraine."}
  status: {type: string, enum: [active, managed, resolved], description: "active: it troubles them; managed: under
    control; resolved: over. Left out: active."}
  diagnosed_at: {type: string, description: "The day of the diagnosis, YYYY-MM-DD. If only the year is known take its
    first day and say so in notes."}
  notes: {type: string, description: "By whom it was diagnosed, what it depends on."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
INSERT INTO conditions AS c (name, status, diagnosed_at, notes)
VALUES (:name::text, coalesce(:status::text, 'active'), shared.moment('diagnosed_at', :diagnosed_at::text)::date,
        nullif(health_note('notes', :notes::text), ''))
ON CONFLICT (tenant_id, lower(name)) WHERE deleted_at IS NULL
DO UPDATE SET notes = coalesce(excluded.notes, c.notes)
RETURNING c.id, c.name, c.status, c.diagnosed_at, c.notes, (c.xmax <> 0) AS already_listed;
