/*---
description: >-
  Make a collection: a named place for items of one sort, such as groceries, wines or garden ideas. Look with
  collection_list first. A name that is there already gives that collection (already_there true); a new description
  replaces its old one.
examples:
  - Create a collection for wines.
  - Make a new collection named garden ideas.
  - I want a place to keep the recipes of my grandmother.
  - Start a packing list for camping trips.
  - From now on I'd like to jot down films worth watching somewhere.
args:
  name: {type: string, required: true, minLength: 1, maxLength: 100, description: "What the person calls it. Capitals
    make no difference."}
  description: {type: string, maxLength: 1000, description: "What belongs into it."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
INSERT INTO collections AS c (name, description)
SELECT btrim(:name::text), nullif(btrim(:description::text), '')
 WHERE CASE WHEN btrim(:name::text) = '' THEN shared.refuse('The name is empty. Give what the person calls it.')
            ELSE true END
ON CONFLICT (tenant_id, lower(name)) WHERE deleted_at IS NULL
DO UPDATE SET description = coalesce(excluded.description, c.description), updated_at = shared.clock()
RETURNING c.id, c.name, c.description, c.created_at, (c.xmax <> 0) AS already_there;
