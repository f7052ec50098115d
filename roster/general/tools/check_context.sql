/*---
description: >-
  The context signals that hold now: what the person's days are like (travelling, ill, on leave, guests), what was said
  about each, and until when. Look here before you suggest or plan something. An empty list: nothing out of the
  ordinary.
examples:
  - Check my context before planning anything.
  - Which context signals hold at the moment?
  - Do you know whether I'm supposed to be off sick or away?
  - Is anything out of the ordinary going on with me these days?
  - Before you suggest dinner, are visitors staying with us now?
args:
  at: {type: string, description: "What will still hold then: a day, YYYY-MM-DD, or a moment that lies ahead. Leave it
    out for now."}
returns: rows
meta: {reads_private: true, reads_untrusted: true, effect: none}
---*/
SELECT s.signal_type, s.value, s.set_at, s.expires_at
  FROM context_signals s
 WHERE s.ended_at IS NULL
   AND s.expires_at > greatest(coalesce(shared.moment('at', :at::text), shared.clock()), shared.clock())
   AND (SELECT CASE WHEN shared.moment('at', :at::text) < date_trunc('day', shared.clock())
                    THEN shared.refuse('at lies in the past. Only what holds now or later can be told.') ELSE true END)
 ORDER BY s.signal_type
 LIMIT 100;
