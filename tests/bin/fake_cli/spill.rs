//! Secrets on every way out: words, tool arguments, standard error, files, and lines that are no events.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::print_now;
use super::speech::Speech;

/// The secrets of `file`, one a line; the own token; what the environment holds that somebody declared.
pub fn everything(file: &str, speech: &mut Speech) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|e| {
        eprintln!("{file}: {e}");
        std::process::exit(64);
    });
    let mut secrets: Vec<String> = text.lines().map(str::to_owned).collect();
    secrets.push(speech.token().to_owned());
    secrets.extend(std::env::vars().filter(|(name, _)| name.starts_with("CANARY")).map(|(_, value)| value));
    for (n, secret) in secrets.iter().enumerate() {
        let all = written(secret);
        let joined = all.join(" | ");
        speech.say(&format!("number {n}: {joined}"));
        // The arguments as such, and as JSON within JSON.
        let value = json!({"forms": all, secret: joined, "inner": json!({"forms": all}).to_string()});
        let arguments = json!({"key": format!("{n}-{secret}"), "value": value});
        let _ = speech.call("state_set", &arguments.to_string());
        let _ = speech.call("state_get", &json!({"key": secret}).to_string());
        // Refused, so that the refusal quotes it.
        let _ = speech.call("state_get", &json!({"key": 1, secret: joined}).to_string());
        let _ =
            speech.call("schedule_create", &json!({"name": secret, "cron": "0 0 1 1 *", "prompt": joined}).to_string());
        eprintln!("{n}: {joined}");
        print_now(&format!("no event at all: {joined}\n"));
        print_now(&(json!({"type": "system", "subtype": secret, "forms": all}).to_string() + "\n"));
        for dir in ["HOME", "TMPDIR"] {
            let place = std::env::var(dir).unwrap_or_default();
            for (m, form) in all.iter().enumerate() {
                let _ = std::fs::write(format!("{place}/{n}-{m}"), format!("before {form} after"));
            }
            // The name of a file can't hold everything.
            let _ = std::fs::create_dir_all(format!("{place}/{}", secret.replace('/', "_")));
        }
    }
}

/// A secret in every encoding; in base64 at each place in what is encoded.
fn written(secret: &str) -> Vec<String> {
    let bytes = secret.as_bytes();
    let hex = |upper: bool| {
        bytes.iter().map(|b| if upper { format!("{b:02X}") } else { format!("{b:02x}") }).collect::<String>()
    };
    let percent = |all: bool| {
        let one = |b: &u8| match b {
            b if !all && (b.is_ascii_alphanumeric() || b"-._~".contains(b)) => char::from(*b).to_string(),
            b => format!("%{b:02X}"),
        };
        bytes.iter().map(one).collect::<String>()
    };
    let quoted = Value::String(secret.to_owned()).to_string();
    let mut all = vec![secret.to_owned(), hex(false), hex(true), percent(false), percent(true), quoted];
    for before in ["", "a", "ab"] {
        all.push(STANDARD.encode(format!("{before}{secret}")));
        all.push(URL_SAFE_NO_PAD.encode(format!("{before}{secret}after")));
    }
    all
}
