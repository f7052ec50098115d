//! What the probe does in the database.

use tools::{ToolCall, ToolError};

/// Waits in the database, as a long query of a real tool would.
pub(super) async fn wait(call: &ToolCall, seconds: f64) -> Result<(), ToolError> {
    call.query("SELECT pg_sleep($1)", &[&seconds]).await.map(drop)
}

/// The text of its migration: one that fails, or one that makes its table where that is missing.
pub(super) fn migration(fails: bool) -> &'static str {
    if fails {
        return "SELECT no_such_column FROM pg_class";
    }
    "CREATE TABLE IF NOT EXISTS probe_rows (id int); SELECT shared.tenant_table('probe_rows')
                  WHERE NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = 'probe_rows'::regclass
                                    AND attname = 'tenant_id')"
}
