/*---
description: >-
  Note a gift for a contact, as an idea at first; gift_update_status moves it on. Use it for every idea that the person
  names or that the contact lets slip. It returns the row with its id; already_there is true if it was planned already,
  which is then kept once, and given_before is the day on which they were given the same thing.
examples:
  - "Add a gift idea for Laura: a pottery course."
  - Save a gift for Dad's birthday, the red toolbox for 80 euros.
  - Emma mentioned she would love a book about stargazing.
  - A handmade scarf might be lovely for my aunt at Christmas.
  - For their wedding we could give the newlyweds a cast iron pot.
args:
  contact_id: {type: string, format: uuid, required: true, description: "For whom; from contact_search or
    contact_resolve."}
  description: {type: string, required: true, description: "What it is."}
  occasion: {type: string, description: "For what, such as birthday, Christmas, wedding."}
  price: {type: number, minimum: 0, description: "What it costs, in currency."}
  currency: {type: string, description: "The three letters of ISO 4217, such as EUR; needed with price."}
  url: {type: string, description: "Where it is to be had, https://…"}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT (p.g).id, (p.g).contact_id, c.name AS contact_name, (p.g).description, (p.g).occasion, (p.g).status, (p.g).price,
       (p.g).currency, (p.g).url, p.already AS already_there, p.given_before
  FROM gift_put(:contact_id::uuid, :description::text, :occasion::text, :price::numeric, :currency::text, :url::text) p
  JOIN contacts c ON c.id = (p.g).contact_id;
