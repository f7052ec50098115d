//! What shows that a request is the program's: its token, or a signature over the body.

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use jiff::{SignedDuration, Timestamp};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use base::Secret;

/// How many bytes a signature has.
const LENGTH: usize = 32;

/// The HMAC-SHA256 of these, one behind the other.
pub(super) fn mac(secret: &Secret<String>, parts: &[&[u8]]) -> [u8; LENGTH] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()).expect("HMAC takes a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Looks for the proof of one program.
pub(super) struct Prover {
    pub secret: Secret<String>,
    pub form: ProofForm,
}

/// Where the proof stands.
pub(super) enum ProofForm {
    /// The secret itself in `Authorization: Bearer`.
    Bearer,
    /// A signature in hexadecimal, behind the prefix.
    Signature { header: HeaderName, prefix: String, time: Option<SignedTime> },
}

/// The header with the time that is signed before a dot and the body, and by how much it may differ from ours.
pub(super) struct SignedTime {
    pub header: HeaderName,
    pub window: SignedDuration,
}

/// The proof held.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proven<'h> {
    /// When it was signed, as the program wrote it.
    pub signed_at: Option<&'h str>,
}

/// A signature and the time that it covers, as the headers have them.
struct Claimed<'h> {
    signature: [u8; LENGTH],
    signed_at: Option<&'h str>,
}

impl Prover {
    /// Whether the headers bring a proof, or what may be one once the body is there.
    pub fn may_hold(&self, headers: &HeaderMap, now: Timestamp) -> bool {
        match &self.form {
            ProofForm::Bearer => self.is_token(headers),
            ProofForm::Signature { .. } => self.claimed(headers, now).is_some(),
        }
    }

    /// The proof, if it holds for this body.
    pub fn holds<'h>(&self, headers: &'h HeaderMap, body: &[u8], now: Timestamp) -> Option<Proven<'h>> {
        if let ProofForm::Bearer = self.form {
            return self.is_token(headers).then_some(Proven { signed_at: None });
        }
        let Claimed { signature, signed_at } = self.claimed(headers, now)?;
        let own = match signed_at {
            Some(time) => mac(&self.secret, &[time.as_bytes(), b".", body]),
            None => mac(&self.secret, &[body]),
        };
        bool::from(own.ct_eq(&signature)).then_some(Proven { signed_at })
    }

    fn is_token(&self, headers: &HeaderMap) -> bool {
        let given = only(headers, &AUTHORIZATION).and_then(|given| given.split_once(' '));
        let token = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        token.is_some_and(|token| bool::from(self.secret.expose().as_bytes().ct_eq(token.as_bytes())))
    }

    fn claimed<'h>(&self, headers: &'h HeaderMap, now: Timestamp) -> Option<Claimed<'h>> {
        let ProofForm::Signature { header, prefix, time } = &self.form else { return None };
        let signature = bytes(only(headers, header)?.strip_prefix(prefix.as_str())?)?;
        let Some(time) = time else { return Some(Claimed { signature, signed_at: None }) };
        let signed_at = only(headers, &time.header)?;
        let is_now = now.duration_since(moment(signed_at)?).abs() <= time.window;
        is_now.then_some(Claimed { signature, signed_at: Some(signed_at) })
    }
}

/// The header's value; `None` too where it stands there more than once, so that nobody reads another one than we do.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut given = headers.get_all(name).iter();
    let value = given.next().filter(|_| given.next().is_none())?;
    value.to_str().ok()
}

/// Seconds since 1970, or a time as RFC 3339 has it.
fn moment(text: &str) -> Option<Timestamp> {
    match text.parse::<i64>() {
        Ok(seconds) => Timestamp::from_second(seconds).ok(),
        Err(_) => text.parse().ok(),
    }
}

fn bytes(digits: &str) -> Option<[u8; LENGTH]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    if digits.len() != 2 * LENGTH {
        return None;
    }
    digits.as_bytes().chunks_exact(2).map(pair).collect::<Option<Vec<u8>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000;

    fn now() -> Timestamp {
        Timestamp::from_second(NOW).unwrap()
    }

    fn secret() -> Secret<String> {
        Secret::new("It's a Secret to Everybody".to_owned())
    }

    fn signing(time: Option<&'static str>) -> Prover {
        let time =
            time.map(|name| SignedTime { header: HeaderName::from_static(name), window: SignedDuration::from_mins(5) });
        let header = HeaderName::from_static("x-hub-signature-256");
        Prover { secret: secret(), form: ProofForm::Signature { header, prefix: "sha256=".to_owned(), time } }
    }

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    /// The example of GitHub's documentation.
    const HELLO: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn a_signature_holds_for_its_body_alone() {
        let prover = signing(None);
        let signed = |value: &str| headers(&[("x-hub-signature-256", value)]);
        let good = signed(&format!("sha256={HELLO}"));
        assert!(prover.may_hold(&good, now()));
        assert_eq!(prover.holds(&good, b"Hello, World!", now()), Some(Proven { signed_at: None }));
        assert!(prover.holds(&signed(&format!("sha256={}", HELLO.to_uppercase())), b"Hello, World!", now()).is_some());
        assert_eq!(prover.holds(&good, b"Hello, World?", now()), None);
        let other = Prover { secret: Secret::new("another".to_owned()), ..signing(None) };
        assert!(other.may_hold(&good, now()) && other.holds(&good, b"Hello, World!", now()).is_none());
        let shapeless = [
            HELLO.to_owned(),
            format!("sha1={HELLO}"),
            "sha256=".to_owned(),
            format!("sha256={HELLO}0"),
            format!("sha256=g{}", &HELLO[1..]),
        ];
        for wrong in shapeless {
            assert!(!prover.may_hold(&signed(&wrong), now()), "{wrong}");
            assert_eq!(prover.holds(&signed(&wrong), b"Hello, World!", now()), None, "{wrong}");
        }
        let mut twice = good.clone();
        twice.append("x-hub-signature-256", "sha256=00".parse().unwrap());
        assert!(!prover.may_hold(&HeaderMap::new(), now()) && !prover.may_hold(&twice, now()));
    }

    #[test]
    fn a_signed_time_is_covered_and_holds_for_a_while() {
        let prover = signing(Some("x-time"));
        let sent = |claimed: &str, signed: &str| {
            let signature = base::text::hex(&mac(&secret(), &[signed.as_bytes(), b".", b"{}"]));
            headers(&[("x-time", claimed), ("x-hub-signature-256", &format!("sha256={signature}"))])
        };
        for good in [NOW.to_string(), (NOW - 300).to_string(), (NOW + 300).to_string(), now().to_string()] {
            let sent = sent(&good, &good);
            assert!(prover.may_hold(&sent, now()), "{good}");
            assert_eq!(prover.holds(&sent, b"{}", now()), Some(Proven { signed_at: Some(&good) }));
        }
        for late in [(NOW - 301).to_string(), (NOW + 301).to_string(), i64::MAX.to_string(), "soon".to_owned()] {
            assert!(!prover.may_hold(&sent(&late, &late), now()), "{late}");
            assert_eq!(prover.holds(&sent(&late, &late), b"{}", now()), None, "{late}");
        }
        // An old request with a new time.
        assert_eq!(prover.holds(&sent(&NOW.to_string(), &(NOW - 3600).to_string()), b"{}", now()), None);
        // A signature over the body alone, or no time.
        let untimed = format!("sha256={}", base::text::hex(&mac(&secret(), &[b"{}"])));
        let bare = headers(&[("x-time", &NOW.to_string()), ("x-hub-signature-256", &untimed)]);
        assert_eq!(prover.holds(&bare, b"{}", now()), None);
        assert!(!prover.may_hold(&headers(&[("x-hub-signature-256", &untimed)]), now()));
    }

    #[test]
    fn a_token_is_the_secret_and_nothing_else() {
        let prover = Prover { secret: secret(), form: ProofForm::Bearer };
        let sent = |value: &str| headers(&[("authorization", value)]);
        for good in ["Bearer It's a Secret to Everybody", "bearer  It's a Secret to Everybody"] {
            assert!(prover.may_hold(&sent(good), now()) && prover.holds(&sent(good), b"", now()).is_some(), "{good}");
        }
        for wrong in [
            "Bearer",
            "Bearer ",
            "Bearer It's a Secret",
            "Basic It's a Secret to Everybody",
            "It's a Secret to Everybody",
            "Bearer It's a Secret to Everybody!",
        ] {
            assert!(
                !prover.may_hold(&sent(wrong), now()) && prover.holds(&sent(wrong), b"", now()).is_none(),
                "{wrong}"
            );
        }
        assert!(!prover.may_hold(&HeaderMap::new(), now()));
    }
}
