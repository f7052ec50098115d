/*---
description: >-
  Travel documents on record, those that expire first at the top. Of a trip: its own and those that are good for every
  trip. Use it for "is my passport still valid", and to find the id for document_remove.
examples:
  - List my travel documents
  - Which documents expire within the next six months?
  - Is my passport still valid in October?
  - Which papers do I hold for crossing the border into Turkey?
  - When does the kids' insurance abroad run out?
args:
  trip_id: {type: string, format: uuid, description: "Only what counts for this trip."}
  type: {type: string, enum: [passport, id_card, visa, driving_licence, insurance, vaccination, boarding_pass, ticket,
    booking, other], description: "Only of this type."}
  expires_within_days: {type: integer, minimum: 0, maximum: 3650, description: "Only those that expire within so many
    days or have expired."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many."}
  deleted: {type: boolean, default: false, description: "True lists the removed ones instead, for document_restore."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT d.id, d.trip_id, t.name AS trip, d.type, nullif(d.holder, '') AS holder, d.expiry_date,
       d.expiry_date - shared.today() AS days_left, d.blob_ref, d.metadata
  FROM documents d LEFT JOIN trips t ON t.id = d.trip_id
 WHERE (d.deleted_at IS NOT NULL) = coalesce(:deleted::boolean, false)
   AND (:type::text IS NULL OR d.type = :type::text)
   AND (:expires_within_days::int IS NULL OR d.expiry_date <= shared.today() + :expires_within_days::int)
   AND (:trip_id::uuid IS NULL OR d.trip_id IS NULL OR d.trip_id = :trip_id::uuid)
   -- A trip that is not there is refused even when nothing is on record.
   AND (SELECT CASE WHEN :trip_id::uuid IS NULL THEN true ELSE (trip_of(:trip_id::uuid, false)).id IS NOT NULL END)
 ORDER BY d.expiry_date NULLS LAST, d.type, d.id
 LIMIT coalesce(:limit::int, 50) OFFSET coalesce(:offset::int, 0);
