/*---
description: >-
  All that is on record about a contact in one row of time, newest first: interactions, notes, life events, gifts, loans,
  tasks. Look here before the person meets somebody or asks how things stand with them. Without contact_id it goes over
  everybody. If as many rows come back as limit allows there may be more: ask again with offset.
args:
  contact_id: {type: string, format: uuid, description: "About whom; from contact_search or contact_resolve."}
  kind: {type: string, enum: [interaction, note, life_event, gift, gift_given, loan, loan_settled, task, task_completed],
    description: "Only this kind."}
  start_date: {type: string, description: "First day, YYYY-MM-DD in the owner's time zone, or a moment in RFC 3339."}
  end_date: {type: string, description: "Last day, which counts whole, or a moment."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many of the newest rows."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
WITH feed AS (
    SELECT i.occurred_at AS at, 'interaction' AS kind, i.contact_id, concat_ws(': ', i.type, i.summary) AS text, i.id
      FROM interactions i WHERE i.deleted_at IS NULL
    UNION ALL
    SELECT n.created_at, 'note', n.contact_id, concat_ws(': ', n.title, n.content), n.id
      FROM notes n WHERE n.deleted_at IS NULL
    UNION ALL
    SELECT coalesce(e.happened_at::timestamptz, e.created_at), 'life_event', e.contact_id,
           concat_ws(': ', e.type_name, e.summary), e.id
      FROM life_events e WHERE e.deleted_at IS NULL
    UNION ALL
    SELECT g.created_at, 'gift', g.contact_id, concat_ws(', for ', g.description, g.occasion), g.id
      FROM gifts g WHERE g.deleted_at IS NULL
    UNION ALL
    SELECT g.given_on::timestamptz, 'gift_given', g.contact_id, concat_ws(', for ', g.description, g.occasion), g.id
      FROM gifts g WHERE g.deleted_at IS NULL AND g.given_on IS NOT NULL
    UNION ALL
    SELECT CASE k WHEN 'loan' THEN l.lent_on::timestamptz ELSE l.settled_at END, k, w.id,
           concat_ws(': ', format('%s %s lent by %s to %s', s.amount, s.currency, s.lender, s.borrower), s.description),
           l.id
      FROM loans l
           CROSS JOIN LATERAL loan_shown(l) s
           CROSS JOIN LATERAL (VALUES (l.lender_contact_id), (l.borrower_contact_id)) w(id)
           CROSS JOIN (VALUES ('loan'), ('loan_settled')) v(k)
     WHERE l.deleted_at IS NULL AND w.id IS NOT NULL AND (k = 'loan' OR l.settled_at IS NOT NULL)
    UNION ALL
    SELECT CASE k WHEN 'task' THEN t.created_at ELSE t.completed_at END, k, t.contact_id, t.title, t.id
      FROM tasks t CROSS JOIN (VALUES ('task'), ('task_completed')) v(k)
     WHERE t.deleted_at IS NULL AND (k = 'task' OR t.completed_at IS NOT NULL)
)
SELECT f.at, f.kind, f.contact_id, c.name AS contact_name, f.text, f.id
  FROM feed f
  JOIN contacts c ON c.id = f.contact_id
 WHERE asks_about(:contact_id::uuid)
   AND shared.bound('start_date', :start_date::text, false) < shared.bound('end_date', :end_date::text, true)
   AND f.contact_id = coalesce((SELECT contact_there('contact_id', :contact_id::uuid)), f.contact_id)
   AND (:kind::text IS NULL OR f.kind = :kind::text)
   AND f.at >= shared.bound('start_date', :start_date::text, false)
   AND f.at < shared.bound('end_date', :end_date::text, true)
 ORDER BY f.at DESC, f.kind, f.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
