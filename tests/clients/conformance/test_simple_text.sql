/*---
description: Returns a text.
returns: value
meta: {effect: none}
---*/
SELECT 'This is a simple text response for testing.'::text;
