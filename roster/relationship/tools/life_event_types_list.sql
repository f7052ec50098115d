/*---
description: >-
  The types that life_event_log takes, by category, each with how many events of it are on record.
examples:
  - List the types of life events there are.
  - Which life event types exist in the health category?
  - What kinds of milestones can you record for people?
  - Can you keep track of things like surgeries, graduations or adoptions?
  - Which categories do you sort big changes such as weddings and moves into?
args:
  category: {type: string, description: "Only this category: family, work, education, home, health or social."}
returns: rows
meta: {reads_private: true, effect: none}
---*/
SELECT k.category, k.name, k.label,
       (SELECT count(*)::int FROM life_events e WHERE e.type_name = k.name AND e.deleted_at IS NULL) AS logged
  FROM life_event_kinds() k
 WHERE (:category::text IS NULL
        OR EXISTS (SELECT 1 FROM life_event_kinds() o WHERE o.category = lower(btrim(:category::text)))
        OR shared.refuse(format('There is no category "%s". The categories are %s.', left(:category::text, 60),
                                (SELECT string_agg(DISTINCT o.category, ', ') FROM life_event_kinds() o))))
   AND k.category = coalesce(lower(btrim(:category::text)), k.category)
 ORDER BY k.category, k.name;
