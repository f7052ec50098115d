use super::*;

#[test]
fn secrets_are_seen() {
    for text in [
        "the key:\n-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        "uses AKIAIOSFODNN7EXAMPLE for s3",
        concat!("ghp", "_abcdefghijklmnopqrstuvwxyz0123456789"),
        concat!("github", "_pat_11ABCDEFG0abcdefghijklmnop"),
        concat!("sk-ant", "-api03-abcdefghijklmnopqrst"),
        concat!("sk-", "proj1234567890abcdefghij"),
        concat!("xoxb", "-123456789012-abcdefghij"),
        "export PASSWORD=hunter2",
        "password = correct",
        "Password: hunter2!",
        "the password is set by `db_password: \"swordfish\"`",
        "{\"api_key\": \"abcd1234efgh\"}",
        "client_secret: 'swordfish'",
        "DATABASE_PASSWORD=swordfish",
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI",
        "postgres://ada:swordfish@db/app",
        "redis://:swordfish@cache:6379",
        "Authorization: Bearer abcdefghij0123456789xyz",
        concat!("eyJhbGciOiJIUzI1NiJ9", ".eyJzdWIiOiIxMjM0NSJ9", ".dozjgNryP4J3jVmN"),
    ] {
        assert!(secret_in(text).is_some(), "{text}");
    }
}

#[test]
fn what_only_speaks_of_secrets_may_leave() {
    for text in [
        "Tokens are refreshed hourly; the password lives in the vault.",
        "password: stored in the vault, never in the repository",
        "secret: none needed. token: optional",
        "set PASSWORD=$DB_PASSWORD in CI, or token=<your token>",
        "api_key = os.environ['KEY'] and secret: process.env.SECRET",
        "token = get_token(user)",
        "PASSWORD=******** and password: ${{ secrets.DB }}",
        "https://example.org:8080/a@b and ssh://git@github.com/acme/api",
        "postgres://user:$PASSWORD@db/app",
        "the sk-learn-based-classifier-pipeline is slow; task-abcdefghijklmnopqrstuvwxyz1",
        "Bearer authentication-is-required-everywhere",
        "author=ada, keyboard: dvorak1, tokenizer: bpe32k",
        "1f0e3dad99908345f7439f8ffabdffc4 is the commit",
    ] {
        assert_eq!(secret_in(text), None, "{text}");
    }
}

#[test]
fn what_a_sentence_may_give_away_is_doubtful() {
    for text in ["the password is stored in the vault", "token: optional", "Bearer authentication-is-required"] {
        assert!(secret_in(text).is_none() && may_hold_secret(text), "{text}");
    }
    assert!(may_hold_secret("PIN: 4711") && !may_hold_secret("Tokens are refreshed hourly."));
}

#[test]
fn each_secret_of_a_text_is_hidden_once() {
    let key = concat!("ghp", "_abcdefghijklmnopqrstuvwxyz0123456789");
    let text = format!("a password=hunter2 and a {key}; b https://ada:swordfish@db/x, token = get_token(user)");
    let hidden = "a [hidden] and a [hidden]; b [hidden]db/x, token = get_token(user)";
    assert_eq!(hide_secrets(&text), hidden);
    assert!(secret_in(&hide_secrets(&text)).is_some(), "what is hidden is a secret still");
}

#[test]
fn secrets_are_hidden_and_the_rest_stays() {
    let hidden = hide_secrets("Asked: pay with 4111 1111 1111 1111 in Lyon, password is hunter2 now");
    assert!(hidden.contains("Lyon") && !hidden.contains("4111 1111") && !hidden.contains("hunter2"), "{hidden}");
    assert_eq!(hide_secrets("Ada lives in Lyon"), "Ada lives in Lyon");
}
