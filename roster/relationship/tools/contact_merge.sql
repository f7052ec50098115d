/*---
description: >-
  Make two contacts that are one person into one. All that hangs on the source goes over to the target, and the target
  takes over what it does not say itself; the source is archived. moved tells how many rows went over, stayed_behind
  how many both had. contact_restore with the source's id takes it back. Ask the person first, unless they said
  themselves that the two are one.
examples:
  - Merge the two contacts named Chris Miller.
  - Combine the duplicate contacts Liz and Elisabeth Brunner.
  - Bobby and Robert Schmid are the same guy, make him one.
  - My hairdresser is in there twice, once with her maiden name.
  - It turns out Doc Weber and Thomas Weber are a single person.
args:
  source_id: {type: string, format: uuid, required: true, description: "The contact that goes. Ask the person
    first, unless they said themselves that the two are one."}
  target_id: {type: string, format: uuid, required: true, description: "The contact that stays."}
returns: value
meta: {reads_private: true, effect: idempotent}
---*/
SELECT contact_merge(:source_id::uuid, :target_id::uuid);
