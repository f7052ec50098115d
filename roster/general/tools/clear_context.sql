/*---
description: >-
  End a context signal that holds no longer, before its time. check_context shows which are set; set_context sets one
  again.
examples:
  - Clear the travelling context.
  - End the context signal for exams, they finished early.
  - I'm healthy again, the fever is gone.
  - We came home from Lisbon sooner than expected.
  - My in-laws left this morning, the house is empty again.
args:
  signal_type: {type: string, required: true, description: "Its type, as check_context gave it."}
returns: row
meta: {reads_private: true, reads_untrusted: true, effect: idempotent}
---*/
SELECT x.signal_type, x.value, x.ended_at FROM context_clear(:signal_type::text) x;
