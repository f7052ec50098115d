/*---
description: >-
  Note one thing that is to be done. Use it whenever the person asks to remember a task of this domain. It returns the
  stored row with its id; already_there is true if a thing of this title was noted before, which then gets the new day.
examples:
  - Put milk on my list.
  - I must not forget to call the plumber on Friday.
args:
  title: {type: string, required: true, minLength: 1, maxLength: 200, description: "What is to be done, in a few words."}
  due_on: {type: string, description: "The day it is due, YYYY-MM-DD in the person's time zone. Leave it out if none was
    said."}
returns: row
meta: {reads_private: true, effect: once}
---*/
INSERT INTO items AS i (title, due_on)
SELECT btrim(:title::text), given.due_on
  FROM (SELECT shared.day('due_on', :due_on::text) AS due_on) given
 WHERE given.due_on IS NULL OR given.due_on >= shared.today()
    OR shared.refuse(format('due_on %s is over; today is %s. Ask the person which day they mean.',
                            given.due_on, shared.today()))
ON CONFLICT (tenant_id, lower(title)) DO UPDATE SET due_on = coalesce(excluded.due_on, i.due_on)
-- xmax is 0 in a row that this statement made, and set in one that it found.
RETURNING i.id, i.title, i.due_on, (i.xmax <> 0) AS already_there;
