/*---
description: >-
  All that is on record about a contact in one row of time, newest first: interactions, notes, life events, gifts, loans,
  tasks. Look here before the person meets somebody or asks how things stand with them. Without contact_id it goes over
  everybody. If as many rows come back as limit allows there may be more: ask again with offset.
examples:
  - Get the feed for Manuela.
  - Show me the feed of everything lately about all my people.
  - I am meeting Christoph tonight, bring me up to speed on him.
  - What has been going on between me and Linda this past year?
  - How do things stand with my old roommate, in chronological order?
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
    SELECT v.at, v.kind, w.contact_id, NULL, l.id
      FROM loans l
           CROSS JOIN LATERAL (VALUES (l.lender_contact_id), (l.borrower_contact_id)) w(contact_id)
           CROSS JOIN LATERAL (VALUES (l.lent_on::timestamptz, 'loan'), (l.settled_at, 'loan_settled')) v(at, kind)
     WHERE l.deleted_at IS NULL AND w.contact_id IS NOT NULL AND v.at IS NOT NULL
    UNION ALL
    SELECT v.at, v.kind, t.contact_id, t.title, t.id
      FROM tasks t
           CROSS JOIN LATERAL (VALUES (t.created_at, 'task'), (t.completed_at, 'task_completed')) v(at, kind)
     WHERE t.deleted_at IS NULL AND v.at IS NOT NULL
), page AS (
    SELECT *
      FROM feed f
     WHERE asks_about(:contact_id::uuid)
       AND shared.bound('start_date', :start_date::text, false) < shared.bound('end_date', :end_date::text, true)
       AND f.contact_id = coalesce((SELECT contact_there('contact_id', :contact_id::uuid)), f.contact_id)
       AND (:kind::text IS NULL OR f.kind = :kind::text)
       AND f.at >= shared.bound('start_date', :start_date::text, false)
       AND f.at < shared.bound('end_date', :end_date::text, true)
     ORDER BY f.at DESC, f.kind, f.id, f.contact_id
     LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0)
)
SELECT p.at, p.kind, p.contact_id, (SELECT c.name FROM contacts c WHERE c.id = p.contact_id) AS contact_name,
       -- A loan's text names two contacts: put together for this page alone.
       coalesce(p.text, (SELECT concat_ws(': ', format('%s %s lent by %s to %s', s.amount, s.currency, s.lender,
                                                       s.borrower), s.description)
                           FROM loans l, loan_shown(l) s WHERE l.id = p.id)) AS text, p.id
  FROM page p
 ORDER BY p.at DESC, p.kind, p.id, p.contact_id;
