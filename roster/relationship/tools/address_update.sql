/*---
description: >-
  Correct an address. Give only what changes; an empty text takes a value away. What it said before comes back as
  previous and is kept. When somebody moved, use address_add for the new one with is_current true, so that the old one
  stays known.
examples:
  - Correct the address of Simon, the postal code is 8032.
  - Update Vera's home address, the flat is on the fourth floor.
  - The house number for Ivan is 17, not 71.
  - I misspelled the town where my cousin lives, it is Winterthur.
  - Our godmother's street lacks the c/o Baumann line for her mailbox.
args:
  address_id: {type: string, format: uuid, required: true, description: "The id that address_list or contact_get
    gave."}
  label: {type: string, description: "Which one it is: Home, Work, Holiday."}
  line_1: {type: string, description: "Street and number."}
  line_2: {type: string, description: "Flat, floor, c/o."}
  city: {type: string, description: "Town."}
  province: {type: string, description: "State, canton or region."}
  postal_code: {type: string, description: "Postal code."}
  country: {type: string, description: "Two letters by ISO 3166, such as CH, DE or US."}
  is_current: {type: boolean, description: "True: they are to be found there now; another address with the same label
    loses that."}
returns: value
meta: {reads_private: true, effect: idempotent}
---*/
SELECT address_update(:address_id::uuid, jsonb_build_object(
    'label', :label::text, 'line_1', :line_1::text, 'line_2', :line_2::text, 'city', :city::text,
    'province', :province::text, 'postal_code', :postal_code::text, 'country', :country::text,
    'is_current', :is_current::boolean));
