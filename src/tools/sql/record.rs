//! The statements that put a call on record.

/// A call that had no transaction of its own, with others. A row that is there already is a call that a person let
/// through, made again after a kill.
pub(crate) const INSERT_CALLS: &str = "INSERT INTO tool_calls
    (session_id, request_id, caller, tool, arguments, outcome, detail, effect, called_at, duration_us)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::jsonb[], $6::text[],
                         $7::text[], $8::text[], $9::timestamptz[], $10::bigint[])
    ON CONFLICT DO NOTHING";

/// A call that went well, in the transaction of its effect.
pub(crate) const INSERT_WITH_EFFECT: &str = "INSERT INTO tool_calls
    (session_id, request_id, caller, tool, arguments, outcome, effect, called_at, duration_us)
    VALUES ($1, $2, $3, $4, $5, 'ok', $6, $7,
            $8 + (extract(epoch FROM clock_timestamp() - transaction_timestamp()) * 1000000)::bigint)";

/// The rows of a statement as objects, a timestamp with its offset.
pub fn objects(sql: &str) -> String {
    format!("SELECT to_jsonb(q) FROM ({sql}) q")
}
