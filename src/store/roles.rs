//! Butlers' roles and schemas: their names, their passwords, and what a role may do.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use base::{ButlerName, Secret};

/// What makes an empty database a household's.
pub(super) const GROUND: &str = "
    CREATE SCHEMA IF NOT EXISTS shared;
    REVOKE ALL ON SCHEMA public FROM PUBLIC;
    DO $$ BEGIN EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database()); END $$;";

pub(super) fn role_name(butler: &ButlerName) -> String {
    format!("butler_{butler}")
}

/// What a butler's role may do in its own schema: rows, not definitions. Its call log only grows.
pub(super) fn grants(schema: &str, role: &str) -> String {
    format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"{schema}\" TO \"{role}\";
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA \"{schema}\" TO \"{role}\";
         REVOKE ALL ON \"{schema}\".schema_migrations FROM \"{role}\";
         REVOKE UPDATE, DELETE ON \"{schema}\".tool_calls FROM \"{role}\";
         REVOKE DELETE ON \"{schema}\".sessions FROM \"{role}\";"
    )
}

/// What makes a butler's role and schema, or makes them what they should be.
pub(super) fn role_statements(exists: bool, role: &str, schema: &str, verifier: &str) -> [String; 9] {
    let verb = if exists { "ALTER" } else { "CREATE" };
    [
        format!(
            "{verb} ROLE \"{role}\" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS
             PASSWORD '{verifier}'"
        ),
        format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\""),
        format!("REVOKE ALL ON SCHEMA \"{schema}\" FROM PUBLIC"),
        format!("GRANT USAGE ON SCHEMA \"{schema}\" TO \"{role}\""),
        format!("GRANT USAGE ON SCHEMA shared TO \"{role}\""),
        format!(
            "DO $$ BEGIN EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), '{role}'); END $$"
        ),
        format!("ALTER ROLE \"{role}\" SET search_path = \"{schema}\", shared, public"),
        format!("ALTER ROLE \"{role}\" SET statement_timeout = '60s'"),
        format!("ALTER ROLE \"{role}\" SET idle_in_transaction_session_timeout = '60s'"),
    ]
}

pub(super) fn role_password(master_key: &Secret<Vec<u8>>, butler: &ButlerName) -> Secret<String> {
    Secret::new(derive(master_key, &format!("role:{butler}")))
}

/// A password derived from the master key for one purpose: 64 hex digits.
pub fn derive(master_key: &Secret<Vec<u8>>, purpose: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(master_key.expose()).expect("HMAC takes a key of any length");
    mac.update(purpose.as_bytes());
    hex(&mac.finalize().into_bytes())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
