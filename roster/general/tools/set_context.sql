/*---
description: >-
  Note what the person's days are like just now, so that plans and messages fit. Use it when they say so (ill, on leave,
  travelling, guests, in an exam week), not for what holds for good: that goes to memory. A signal of the same type is
  replaced. It ends by itself.
examples:
  - Set my context to travelling until Sunday.
  - "Set a context signal: exam week for the next five days."
  - I'm down with the flu, lying in bed today.
  - My parents are visiting us over the weekend.
  - I'm on leave from tomorrow, beach and no work till the twentieth.
args:
  signal_type: {type: string, required: true, pattern: "^[a-z][a-z0-9_]{1,39}$", description: "A word for it:
    travelling, ill, on_leave, busy, focus, guests, sleeping, celebrating, or another of that form. Take the same word
    each time."}
  value: {type: string, maxLength: 500, description: "What it is in few words, such as: in Lisbon, back on
    Sunday."}
  hours: {type: number, minimum: 0, description: "For how long from now. Without it and without an end: 24."}
  requested_expires_at: {type: string, description: "Until when instead: the last day, YYYY-MM-DD, or a moment in RFC
    3339. Up to 90 days ahead."}
  mutation_id: {type: string, format: uuid, description: "With the same id the same signal is set once."}
returns: row
meta: {reads_private: true, effect: idempotent}
---*/
SELECT s.signal_type, s.value, s.set_at, s.expires_at, s.replaced
  FROM context_set(:signal_type::text, :value::text, :hours::numeric, :requested_expires_at::text,
                   :mutation_id::uuid) s;
