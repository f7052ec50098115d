/*---
description: >-
  With whom the person has been out of touch for longer than they wanted (stay_in_touch_set), the longest first. No
  rows: nobody is overdue.
examples:
  - Which contacts are overdue for a call?
  - Show me the overdue contacts in my family.
  - Whom have I neglected lately and should finally ring?
  - Is there a friend I have not spoken to for too long?
  - I have a free evening, with whom is catching up most pressing?
args:
  group_id: {type: string, format: uuid, description: "Only members of this group."}
  limit: {type: integer, default: 50, minimum: 1, maximum: 500, description: "At most so many rows."}
  offset: {type: integer, default: 0, minimum: 0, description: "Skip so many rows."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT o.contact_id, o.name, o.stay_in_touch_days, o.last_contact_at, o.days_since, o.days_overdue, o.dunbar_tier
  FROM contacts_overdue(:group_id::uuid, coalesce(:limit::int, 50), coalesce(:offset::int, 0)) o;
