/*---
description: What is due today. No rows, no message.
notify:
  head: "Due today:"
  template: "{title}"
  priority: medium
---*/
SELECT title FROM items WHERE due_on = shared.today() ORDER BY lower(title);
