/*---
description: >-
  Log that the person was in touch with a whole group, such as a dinner with the chess club: one interaction for every
  member, whose last contact follows. It returns how many were logged, with an id for each; already_logged counts members
  for whom the same one was on record. If only some of the group were there, take interaction_log for each of them.
examples:
  - Log a group interaction, dinner with the whole chess club.
  - Log that I met the entire book group last night.
  - The whole choir sang together and had beers afterwards on Saturday.
  - All the cousins were at our picnic on Sunday.
  - Tonight I had bowling with everybody from the office team.
args:
  group_id: {type: string, format: uuid, required: true, description: "The group; from group_list."}
  type: {type: string, default: group_interaction, description: "How, in one word, such as dinner or meeting."}
  direction: {type: string, enum: [incoming, outgoing, mutual], default: mutual, description: "Who got in touch."}
  occurred_at: {type: string, description: "When, RFC 3339 with the offset, or a day YYYY-MM-DD. Leave it out if it was
    just now."}
  summary: {type: string, description: "What it was about, in a few sentences."}
  duration_minutes: {type: integer, minimum: 1, maximum: 10080, description: "How long it lasted."}
  metadata: {type: object, description: "Anything else, as keys and values, such as a place."}
returns: row
meta: {reads_private: true, effect: once}
---*/
SELECT p.group_id, p.group_name, p.logged, p.already_logged, p.interactions, p.skipped
  FROM interaction_put_group(:group_id::uuid, coalesce(:type::text, 'group_interaction'),
                             coalesce(:direction::text, 'mutual'), :summary::text, :occurred_at::text,
                             :duration_minutes::int, :metadata::jsonb) p;
