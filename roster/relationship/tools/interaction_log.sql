/*---
description: >-
  Log that the person was in touch with a contact: a call, a meeting, a message. Use it whenever the person tells of one;
  the contact's last contact follows by itself. It returns the stored row with its id; already_logged is true if the same
  one was on record, which is then kept once and only filled in. For a whole group take interaction_log_group; for what
  is only planned take reminder_create or task_create.
examples:
  - "Log an interaction: I called Martha for twenty minutes."
  - Please log that I met Dennis for coffee.
  - I just hung up with my mother, she told me about her knee.
  - Bumped into Ferdinand at the supermarket yesterday, we chatted about school days.
  - Zoe wrote me a long letter from Canada.
args:
  contact_id: {type: string, format: uuid, required: true, description: "With whom; from contact_search or
    contact_resolve."}
  type: {type: string, required: true, description: "How, in one word: call, video_call, meeting, message, email, letter,
    visit, event, or another that fits."}
  summary: {type: string, description: "What it was about, in a few sentences."}
  occurred_at: {type: string, description: "When, RFC 3339 with the offset, or a day YYYY-MM-DD. Leave it out if it was
    just now."}
  direction: {type: string, enum: [incoming, outgoing, mutual], description: "incoming: they got in touch; outgoing: the
    person did; mutual: both, as when they met."}
  duration_minutes: {type: integer, minimum: 1, maximum: 10080, description: "How long it lasted."}
  metadata: {type: object, description: "Anything else, as keys and values, such as a place."}
returns: row
meta: {reads_private: true, effect: once}
---*/
SELECT (p.i).id, (p.i).contact_id, c.name AS contact_name, (p.i).type, (p.i).direction, (p.i).summary,
       (p.i).occurred_at, (p.i).duration_minutes, (p.i).metadata,
       greatest(c.last_contact_at, (p.i).occurred_at) AS last_contact_at, p.already AS already_logged
  FROM interaction_put(:contact_id::uuid, NULL, :type::text, :direction::text, :summary::text, :occurred_at::text,
                       :duration_minutes::int, :metadata::jsonb) p
  JOIN contacts c ON c.id = (p.i).contact_id;
