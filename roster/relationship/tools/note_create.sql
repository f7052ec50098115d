/*---
description: >-
  Write a note about a contact: what they told, what the person noticed. Use it for what is worth keeping in whole
  sentences. A single fact (shoe size, allergy, favourite wine) goes to fact_set, a meeting or call to interaction_log,
  something to do to task_create. already_there is true if the same text was on record, which is then kept once.
examples:
  - "Create a note about Isabel: she seemed sad about leaving Rome."
  - Write a note on Mr. Lehmann and his stories from the navy.
  - Jot down that Paula worries about her thesis and sleeps badly.
  - I noticed Karin was very proud of her son at the recital, keep that.
  - Write up what Uncle Walter told me about his childhood on the farm.
args:
  contact_id: {type: string, format: uuid, required: true, description: "About whom; from contact_search or
    contact_resolve."}
  content: {type: string, description: "The text, as close to the person's words as can be."}
  body: {type: string, description: "Another name of content; give one of the two."}
  title: {type: string, description: "A few words over it."}
  emotion: {type: string, description: "How they or the person felt about it, in one word, if that was said."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT (p.n).id, (p.n).contact_id, c.name AS contact_name, (p.n).title, (p.n).content, (p.n).emotion, (p.n).created_at,
       p.already AS already_there
  FROM note_put(:contact_id::uuid, :content::text, :body::text, :title::text, :emotion::text) p
  JOIN contacts c ON c.id = (p.n).contact_id;
