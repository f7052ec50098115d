//! Butlers' roles and schemas: their names, their passwords, and what a role may do.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::cluster::{RANDOM_PASSWORD_ITERATIONS, scram_verifier};
use super::sql;
use base::text::hex;
use base::{ButlerName, Secret};

pub(super) fn role_name(butler: &ButlerName) -> String {
    format!("butler_{butler}")
}

/// The role that owns what the files of the butler's roster make in its schema. Nobody works as it but they.
pub(super) fn owner_name(butler: &ButlerName) -> String {
    format!("roster_{butler}")
}

/// What a butler's role may do in its own schema: rows, not definitions. Its call log only grows.
pub(super) fn grants(schema: &str, butler: &ButlerName) -> String {
    named(sql::GRANT, schema, butler)
}

/// What makes a butler's roles and schema, or makes them what they should be.
pub(super) fn role_statements(schema: &str, butler: &ButlerName, master_key: &Secret<Vec<u8>>) -> String {
    let verifier = |password: Secret<String>| scram_verifier(password.expose(), RANDOM_PASSWORD_ITERATIONS);
    named(sql::MAKE_ROLES, schema, butler)
        .replace("{verifier}", &verifier(role_password(master_key, butler)))
        .replace("{owner_verifier}", &verifier(owner_password(master_key, butler)))
}

fn named(sql: &str, schema: &str, butler: &ButlerName) -> String {
    sql.replace("{role}", &role_name(butler)).replace("{owner}", &owner_name(butler)).replace("{schema}", schema)
}

pub(super) fn role_password(master_key: &Secret<Vec<u8>>, butler: &ButlerName) -> Secret<String> {
    Secret::new(derive(master_key, &format!("role:{butler}")))
}

pub(super) fn owner_password(master_key: &Secret<Vec<u8>>, butler: &ButlerName) -> Secret<String> {
    Secret::new(derive(master_key, &format!("roster:{butler}")))
}

/// A password derived from the master key for one purpose: 64 hex digits.
pub fn derive(master_key: &Secret<Vec<u8>>, purpose: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(master_key.expose()).expect("HMAC takes a key of any length");
    mac.update(purpose.as_bytes());
    hex(&mac.finalize().into_bytes())
}
