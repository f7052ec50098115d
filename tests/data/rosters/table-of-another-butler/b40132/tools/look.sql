/*---
description: Look.
returns: rows
---*/
SELECT request_id
FROM switchboard.message_inbox
