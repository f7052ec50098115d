/*---
description: >-
  Bring back an archived contact. Of one that was merged into another the merge is taken back: what came from it
  returns to it. contact_search with archived true lists them.
examples:
  - Restore the archived contact of Jens.
  - Bring back the contact of the carpenter we archived.
  - I split with Pauline back then, but now we are friends again, unhide her.
  - Those two Meiers were different people after all, separate them again.
  - The gardener returns this season, pull him out of the archive.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The archived contact, or the source of a
    merge."}
returns: value
meta: {reads_private: true, effect: idempotent}
---*/
SELECT contact_restore(:contact_id::uuid);
