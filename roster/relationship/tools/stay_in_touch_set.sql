/*---
description: >-
  After how many days without contact the person wants to be told. due_on is the last day on which it is not too long
  yet. The days run from the last interaction, which interaction_log notes.
examples:
  - Set stay in touch with Roland to every thirty days.
  - I want to stay in touch with Aunt Elfriede monthly.
  - Warn me whenever I have not spoken to my godson for two weeks.
  - I never want to go longer than a quarter without calling Hannah.
  - Every seven days is the right rhythm for hearing from my mum.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  frequency_days: {type: integer, minimum: 1, maximum: 3650, description: "Days: weekly is 7, monthly 30, quarterly 90.
    Leave it out to stop it."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT s.contact_id, s.name, s.stay_in_touch_days, s.previous, s.last_contact_at, s.due_on
  FROM stay_in_touch_set(:contact_id::uuid, :frequency_days::int) s;
