/*---
description: >-
  Note a travel document and when it expires. With a trip_id it belongs to that trip (visa, ticket, insurance); without
  one it is good for every trip (passport, id card). It returns the document; already_there is true if the same was on
  record, which is then kept once. The owner is told 90, 30 and 7 days before it expires, and trips check against it.
examples:
  - Add my passport as a travel document
  - Add the visa document to my Vietnam trip
  - My new driving licence is valid until August 2034
  - I got the yellow fever jab, put the certificate on file
  - Here is our ski insurance policy for the Austria week, it ends in March
args:
  trip_id: {type: string, format: uuid, description: "The trip it belongs to. Leave it out for a document that is good
    for every trip."}
  type: {type: string, enum: [passport, id_card, visa, driving_licence, insurance, vaccination, boarding_pass, ticket,
    booking, other], required: true, description: "What it is."}
  holder: {type: string, maxLength: 200, description: "Whose it is. Leave it out for the owner."}
  blob_ref: {type: string, maxLength: 500, description: "The reference of the stored file (blob:sha256:…), if there is
    one; get_attachment fetches it."}
  expiry_date: {type: string, description: "Last day on which it is valid, YYYY-MM-DD."}
  metadata: {type: object, description: 'What else is known, such as {"country": "DE", "number": "…"}.'}
returns: row
meta: {reads_private: true, effect: idempotent, sensitive: [metadata]}
---*/
INSERT INTO documents AS d (trip_id, type, holder, blob_ref, expiry_date, metadata)
SELECT CASE WHEN :trip_id::uuid IS NOT NULL THEN (trip_of(:trip_id::uuid, true)).id END, :type::text,
       coalesce(btrim(:holder::text), ''), nullif(btrim(:blob_ref::text), ''), x.expiry,
       coalesce(:metadata::jsonb, '{}')
  FROM (SELECT shared.day('expiry_date', :expiry_date::text) AS expiry) x
 WHERE CASE WHEN x.expiry IS NULL AND :type::text IN ('passport', 'id_card')
            THEN shared.refuse('A ' || replace(:type::text, '_', ' ') || ' has an expiry_date. Ask the person for it.')
            WHEN x.expiry > shared.today() + 36600 OR x.expiry < shared.today() - 36600
            THEN shared.refuse(format('expiry_date is %s. Check the year.', x.expiry)) ELSE true END
ON CONFLICT (tenant_id, type, lower(holder), trip_id, expiry_date, blob_ref) WHERE deleted_at IS NULL
DO UPDATE SET metadata = d.metadata || excluded.metadata, updated_at = shared.clock()
RETURNING d.id, d.trip_id, d.type, nullif(d.holder, '') AS holder, d.blob_ref, d.expiry_date,
          d.expiry_date - shared.today() AS days_left, d.metadata, (d.xmax <> 0) AS already_there;
