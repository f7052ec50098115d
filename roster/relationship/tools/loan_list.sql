/*---
description: >-
  Loans with a contact, or all: the open ones first, then the newest. direction is lent if the owner gave the money,
  borrowed if the owner got it. For what is owed altogether take loan_balance. If as many rows come back as limit allows
  there may be more: ask again with offset.
examples:
  - List all open loans.
  - Show me the loans with Stephanie that were paid back.
  - For what things did I ever advance cash to Kevin?
  - Which debts are still unpaid, one by one with what they were for?
  - Who borrowed money from me this spring and when?
args:
  contact_id: {type: string, format: uuid, description: "With whom. Leave it out for all."}
  settled: {type: boolean, description: "True: only those paid back; false: only the open ones. Left out: both."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the first rows."}
  deleted: {type: boolean, default: false, description: "True lists the deleted ones instead, for loan_restore."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
WITH page AS (
    SELECT *
      FROM loans l
     WHERE asks_about(:contact_id::uuid)
       AND (:contact_id::uuid IS NULL
            OR (SELECT contact_there('contact_id', :contact_id::uuid)) IN (l.lender_contact_id, l.borrower_contact_id))
       AND (:settled::boolean IS NULL OR (l.settled_at IS NOT NULL) = :settled::boolean)
       AND (l.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
     ORDER BY l.settled_at IS NOT NULL, l.lent_on DESC, l.created_at DESC, l.id
     LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0)
)
SELECT s.*
  FROM page p, loan_shown(p) s
 ORDER BY p.settled_at IS NOT NULL, p.lent_on DESC, p.created_at DESC, p.id;
