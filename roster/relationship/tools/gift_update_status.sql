/*---
description: >-
  Move a gift on: idea, purchased, wrapped, given, thanked; steps may be left out. Going back is refused unless it
  corrects a mistake. given notes the day.
examples:
  - Update the gift for Theo to wrapped.
  - Change the status of the earrings gift to purchased.
  - I bought the chess board for Grandpa this afternoon.
  - Valerie unpacked the vase yesterday and was delighted.
  - Aunt Ruth sent a thank-you card for the slippers.
args:
  gift_id: {type: string, format: uuid, required: true, description: "The id that gift_add or gift_list gave."}
  status: {type: string, enum: [idea, purchased, wrapped, given, thanked], required: true, description: "What it is now."}
  given_on: {type: string, description: "With given or thanked: the day it was given, YYYY-MM-DD. Left out: today."}
  correction: {type: boolean, default: false, description: "True goes back to an earlier status, because the present one
    was noted by mistake."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT p.id, p.contact_id, p.description, p.occasion, p.status, p.given_on,
       p.revisions -> -1 AS previous
  FROM gift_move(:gift_id::uuid, :status::text, :correction::boolean, :given_on::text) p;
