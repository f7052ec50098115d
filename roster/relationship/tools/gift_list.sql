/*---
description: >-
  Gifts for a contact or for all, with their status, newest first: what is planned and what was given before. Look here
  before you suggest one. If as many rows come back as limit allows there may be more: ask again with offset.
examples:
  - List all gift ideas for my wife.
  - Which gifts have I given Konrad so far?
  - What did we buy the kids last Christmas?
  - I need inspiration for Mum's birthday, what had I thought of?
  - Which presents are already purchased but still unwrapped?
args:
  contact_id: {type: string, format: uuid, description: "For whom. Leave it out for all."}
  status: {type: string, enum: [idea, purchased, wrapped, given, thanked], description: "Only of this status."}
  occasion: {type: string, description: "Only for this occasion."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
  deleted: {type: boolean, default: false, description: "True lists the deleted ones instead, for gift_restore."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT g.id, g.contact_id, c.name AS contact_name, g.description, g.occasion, g.status, g.price, g.currency, g.url,
       g.given_on, g.created_at
  FROM gifts g
  JOIN contacts c ON c.id = g.contact_id
 WHERE asks_about(:contact_id::uuid)
   AND g.contact_id = coalesce((SELECT contact_there('contact_id', :contact_id::uuid)), g.contact_id)
   AND (:status::text IS NULL OR g.status = :status::text)
   AND (:occasion::text IS NULL OR lower(g.occasion) = lower(btrim(:occasion::text)))
   AND (g.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
 ORDER BY g.created_at DESC, g.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
