//! SCRAM verifiers, so that a role's password never reaches the server (or its log, or a file) in clear.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Iterations for passwords of 256 random bits. Stretching protects guessable passwords only; with these it would
/// just make every new connection slower, on both sides.
pub const RANDOM_PASSWORD_ITERATIONS: u32 = 64;

/// PostgreSQL's stored form of a password (RFC 5802), for `CREATE ROLE … PASSWORD '…'`:
/// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, the last three in base64, with a fresh 16-byte salt.
///
/// `password` must be printable ASCII: for anything else the client would normalise the text first, and this doesn't.
/// Zero iterations count as one. The text has no quote and no backslash, so it may stand in an SQL literal.
pub fn scram_verifier(password: &str, iterations: u32) -> String {
    let mut salt = [0u8; 16];
    getrandom::fill(&mut salt).expect("the operating system gives random bytes");
    verifier_with_salt(password, &salt, iterations.max(1))
}

fn verifier_with_salt(password: &str, salt: &[u8], iterations: u32) -> String {
    let salted = salted_password(password.as_bytes(), salt, iterations);
    let stored_key = Sha256::digest(hmac(&salted, b"Client Key"));
    let server_key = hmac(&salted, b"Server Key");
    format!(
        "SCRAM-SHA-256${iterations}:{}${}:{}",
        STANDARD.encode(salt),
        STANDARD.encode(stored_key),
        STANDARD.encode(server_key)
    )
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// `Hi()` of RFC 5802: PBKDF2 with one block.
fn salted_password(password: &[u8], salt: &[u8], iterations: u32) -> [u8; 32] {
    let mut block = hmac(password, &[salt, &1u32.to_be_bytes()].concat());
    let mut sum = block;
    for _ in 1..iterations {
        block = hmac(password, &block);
        for (s, b) in sum.iter_mut().zip(block) {
            *s ^= b;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange that RFC 7677 prints, checked from both ends: the client's proof and the server's signature.
    #[test]
    fn agrees_with_the_exchange_in_rfc_7677() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let auth =
            format!("n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}");
        let text = verifier_with_salt("pencil", &salt, 4096);
        let (head, keys) = text.rsplit_once('$').unwrap();
        assert_eq!(head, "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==");
        let (stored, server) = keys.split_once(':').unwrap();
        let (stored, server) = (STANDARD.decode(stored).unwrap(), STANDARD.decode(server).unwrap());

        let signature = STANDARD.encode(hmac(&server, auth.as_bytes()));
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        let proof = STANDARD.decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        let client_key: Vec<u8> = hmac(&stored, auth.as_bytes()).iter().zip(proof).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(&client_key).as_slice(), stored.as_slice());
    }

    #[test]
    fn salts_differ() {
        assert_ne!(scram_verifier("x", 1), scram_verifier("x", 1));
        assert!(scram_verifier("x", 0).starts_with("SCRAM-SHA-256$1:"));
    }
}
