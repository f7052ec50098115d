//! Secrets in all their forms, in texts that keep the rest.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::*;

const KEY: &str = "sk-ant-0/9+aZ~\"q~?>ü~~~end";

fn redactor(secrets: &[&str]) -> Redactor {
    let redactor = Redactor::default();
    for secret in secrets {
        redactor.hide(&Secret::new((*secret).to_owned()));
    }
    redactor
}

fn hex(text: &str) -> String {
    crate::text::hex(text.as_bytes())
}

#[test]
fn a_secret_is_hidden_in_clear_and_the_rest_stays() {
    let redactor = redactor(&[KEY, "short", "another-secret"]);
    assert_eq!(redactor.clean(format!("a {KEY} b {KEY}c ü short")), "a [hidden] b [hidden]c ü short");
    assert_eq!(redactor.clean("another-secret".to_owned()), HIDDEN);
}

#[test]
fn hexadecimal_and_urls() {
    let redactor = redactor(&[KEY]);
    let percent: String = KEY.bytes().map(|b| format!("%{b:02X}")).collect();
    for written in [
        hex(KEY),
        hex(KEY).to_uppercase(),
        percent.clone(),
        percent.to_lowercase(),
        "sk-ant-0%2F9%2BaZ~%22q~%3F%3E%C3%BC~~~end".to_owned(),
        "sk-ant-0%2f9%2baZ%7e%22q%7e%3f%3e%c3%bc%7e%7e%7eend".to_owned(),
        "sk-ant-0/9+aZ~%22q~?%3E%C3%BC~~~end".to_owned(),
    ] {
        assert_eq!(redactor.clean(format!("x={written}&y")), "x=[hidden]&y", "{written}");
    }
}

#[test]
fn json_within_json_and_of_other_writers() {
    let redactor = redactor(&[KEY]);
    let once = Value::String(KEY.to_owned()).to_string();
    let twice = Value::String(once.clone()).to_string();
    assert_eq!(redactor.clean(once.clone()), "\"[hidden]\"");
    assert_eq!(redactor.clean(twice), "\"\\\"[hidden]\\\"\"");
    let inner = &once[1..once.len() - 1];
    for written in [
        inner.replace('/', "\\/"),
        inner.replace('>', "\\u003e"),
        inner.replace('>', "\\u003E").replace('+', "\\u002B"),
        inner.replace('ü', "\\u00fc"),
    ] {
        assert_eq!(redactor.clean(written.clone()), HIDDEN, "{written}");
    }
    let mut value = serde_json::json!({"a": [KEY, 1, null], KEY: {"b": format!("-{KEY}-")}});
    redactor.clean_json(&mut value);
    assert_eq!(value, serde_json::json!({"a": [HIDDEN, 1, null], HIDDEN: {"b": "-[hidden]-"}}));
    redactor.hide(&Secret::new("4915123456789".to_owned()));
    let mut value = serde_json::json!([4_915_123_456_789_u64, 1.5]);
    redactor.clean_json(&mut value);
    assert_eq!(value, serde_json::json!([HIDDEN, 1.5]));
}

#[test]
fn what_the_sieve_keeps_back_holds_no_form_of_a_secret() {
    const SECRETS: [&str; 3] = [KEY, "4915123456789", "\u{1}\u{fc}ber \u{20ac}\u{1f600}"];
    let all = || SECRETS.iter().flat_map(|secret| forms(secret.as_bytes()));
    let net = Net::new(all().collect());
    for form in all() {
        for (before, cut, after) in [(0, 0, 0), (1, 0, 0), (0, 1, 1), (7, 0, 1), (7, 0, 40), (40, 0, 7), (40, 1, 0)] {
            let text = [vec![b'x'; before], form.text[cut..].to_vec(), vec![0xff; after]].concat();
            assert!(net.find.is_match(&text) || cut > 0);
            assert_eq!(net.replace(&text).is_some(), net.find.is_match(&text), "{text:?}");
        }
    }
}

#[test]
fn an_answer_is_written_without_secrets_however_they_stand_in_it() {
    for secret in ["plain-secret", "q\"uo\\te/d<&>", "line\none\ttwo", "ü über\u{1}"] {
        let redactor = redactor(&[secret]);
        for form in forms(secret.as_bytes()) {
            let form = String::from_utf8(form.text).expect("a form of a text");
            for text in [form.clone(), format!("a \"{form}\\ b"), format!("{form}\n{form}")] {
                for value in [serde_json::json!([{"a": text}]), serde_json::json!({&text: 1, "b": "nothing"})] {
                    let (mut found, mut written) = (value.clone(), value);
                    redactor.clean_json(&mut found);
                    assert_eq!(redactor.clean_and_write(&mut written), found.to_string(), "{text}");
                    assert_eq!(written, found, "{text}");
                    assert!(!found.to_string().contains(&form), "{text}");
                }
            }
        }
        let mut clear = serde_json::json!({"a": r#"nothing\at"all"#, "n": [1, null]});
        assert_eq!(redactor.clean_and_write(&mut clear), r#"{"a":"nothing\\at\"all","n":[1,null]}"#);
    }
}

#[test]
fn base64_at_any_place_of_what_was_encoded() {
    for secret in [KEY, "8 bytes!", "nine byte", "ten bytes!", "~~~???>>>~~~???"] {
        let redactor = redactor(&[secret]);
        for before in 0..7 {
            for after in 0..7 {
                let clear = format!("{}{secret}{}", &"Bearer "[..before], &" and on"[..after]);
                for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD] {
                    let text = format!("<{}>", engine.encode(&clear));
                    let clean = redactor.clean(text.clone());
                    let (start, end) = clean.split_once(HIDDEN).unwrap_or_else(|| panic!("{secret:?}: {text}"));
                    // What is left are the characters that the secret has no bit in.
                    assert_eq!(start.len(), 1 + before * 8 / 6, "{text} became {clean}");
                    assert!(text.starts_with(start) && text.ends_with(end), "{text} became {clean}");
                    let bits = (before + secret.len()) * 8;
                    let rest = text.len() - 2 - bits.div_ceil(6).min(text.len() - 2);
                    assert!(end.len() <= rest + 1, "{text} became {clean}");
                    assert!(!end.starts_with('='), "{text} became {clean}");
                }
            }
        }
    }
}

#[test]
fn a_secret_within_another_does_not_save_its_rest() {
    let redactor = redactor(&["password-1", "my-password-1-is-long"]);
    assert_eq!(redactor.clean("my-password-1-is-long".to_owned()), HIDDEN);
    assert_eq!(redactor.clean("my-password-1-is".to_owned()), "my-[hidden]-is");
}

#[test]
fn what_passes_is_hidden_while_it_lives() {
    let redactor = redactor(&["lasting-secret"]);
    let token = Secret::new("token-of-a-session".to_owned());
    let text = || "token-of-a-session lasting-secret".to_owned();
    let one = redactor.hide_while(&token);
    let two = redactor.clone().hide_while(&token);
    assert_eq!(redactor.clean(text()), "[hidden] [hidden]");
    drop(one);
    assert_eq!(redactor.clean(text()), "[hidden] [hidden]", "somebody else hides it still");
    drop(two);
    assert_eq!(redactor.clean(text()), "token-of-a-session [hidden]");
}

#[test]
fn bytes_that_are_no_text() {
    let redactor = Redactor::default();
    redactor.hide_bytes(&[0xff, 0xfe, 0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(redactor.clean("fffe0001020304050607".to_owned()), HIDDEN);
    assert_eq!(redactor.clean("//4AAQIDBAUGBw==".to_owned()), HIDDEN);
    assert_eq!(redactor.cleaned(b"a\xff\xfe\0\x01\x02\x03\x04\x05\x06\x07\xffb").unwrap(), b"a[hidden]\xffb");
}

#[test]
fn passwords_in_urls() {
    let redactor = Redactor::default();
    redactor.hide_variable("FEED", "https://me:pass-w0rd@feed.example/x@y");
    redactor.hide_variable("SITE", "https://feed.example/a-long-path");
    redactor.hide_variable("FEED_TOKEN", "token-12345\n");
    assert_eq!(
        redactor.clean("pass-w0rd token-12345 feed.example/a-long-path".to_owned()),
        "[hidden] [hidden] feed.example/a-long-path"
    );
}

#[test]
fn names_of_secrets() {
    for name in ["OPENAI_API_KEY", "telegram_bot_token", "IMAP_PASSWORD", "PGPASS"] {
        assert!(names_a_secret(name), "{name}");
    }
    for name in ["TZ", "LANG", "HTTP_PROXY"] {
        assert!(!names_a_secret(name), "{name}");
    }
}

#[test]
fn what_is_settled_is_told_as_the_whole_text_tells_it() {
    let redactor = redactor(&["s3cr+t/v4lue=", "s3cr+t/v4lue=and-more", "t/v4lue=and-others"]);
    let inner = STANDARD.encode("xs3cr+t/v4lue=yy");
    for text in [
        "a s3cr+t/v4lue= b".to_owned(),
        "é s3cr+t/v4lue=and-others, s3cr+t/v4lue=and-more; s3cr".to_owned(),
        format!("Basic {inner}== end"),
        "?key=s3cr%2Bt%2Fv4lue%3D&more".to_owned(),
    ] {
        let whole = redactor.clean(text.clone());
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            let begun = &text[..end];
            let told = redactor.clean(begun[..redactor.settled(begun)].to_owned());
            assert!(whole.starts_with(&told), "{told:?} of {begun:?} in {whole:?}");
        }
        let longer = format!("{text} and so on, to its very end.");
        assert!(redactor.settled(&longer) > text.len(), "{longer}");
    }
    assert_eq!(Redactor::default().settled("nothing is known"), 16);
}
