/*---
description: >-
  Note a postal address of a contact. The same street, postal code and town of the same contact is one address: it
  comes back with already_there true and takes over what is new.
examples:
  - "Add a new home address for Martina: Lindenweg 12 in Bern."
  - Please note Jonas's work address, Hafenstrasse 4, Hamburg.
  - Grandma moved into the retirement home at Rosengarten 8, Zurich last week.
  - Parcels for Felix now go to 22 Maple Avenue, third floor.
  - The Keller family bought a chalet at Dorfstrasse 5, Grindelwald, for their holidays.
args:
  contact_id: {type: string, format: uuid, required: true, description: "The contact, by the id that contact_resolve or
    contact_search gave; its entity_id serves too."}
  label: {type: string, default: Home, description: "Which one it is: Home, Work, Holiday."}
  line_1: {type: string, required: true, description: "Street and number."}
  line_2: {type: string, description: "Flat, floor, c/o."}
  city: {type: string, description: "Town."}
  province: {type: string, description: "State, canton or region."}
  postal_code: {type: string, description: "Postal code."}
  country: {type: string, description: "Two letters by ISO 3166, such as CH, DE or US."}
  is_current: {type: boolean, default: false, description: "True: they are to be found there now; another address with
    the same label loses that."}
returns: value
meta: {reads_private: true, effect: idempotent}
---*/
SELECT address_add(:contact_id::uuid, jsonb_build_object(
    'label', :label::text, 'line_1', :line_1::text, 'line_2', :line_2::text, 'city', :city::text,
    'province', :province::text, 'postal_code', :postal_code::text, 'country', :country::text,
    'is_current', :is_current::boolean));
