use super::*;

fn read(value: &str) -> String {
    let list = List::parse(value);
    let one = |mailbox: &Mailbox| match &mailbox.name {
        Some(name) => format!("{name} = {}", mailbox.address),
        None => mailbox.address.clone(),
    };
    let all: Vec<String> = list.mailboxes.iter().map(one).collect();
    format!("{}{}", all.join(" | "), if list.odd { " odd" } else { "" })
}

#[test]
fn ordinary_addresses_are_read() {
    for (value, wanted) in [
        ("ada@example.org", "ada@example.org"),
        ("Ada <ada@Example.ORG>", "Ada = ada@example.org"),
        ("\"Lovelace, Ada\" <ada@example.org>, bob@example.org", "Lovelace, Ada = ada@example.org | bob@example.org"),
        ("ada@example.org (Ada L)", "Ada L = ada@example.org"),
        ("=?utf-8?q?J=C3=BCrgen?= <j@example.org>", "Jürgen = j@example.org"),
        ("J. R. Smith <j+x=y@a-b.example.org>", "J. R. Smith = j+x=y@a-b.example.org"),
        ("\"=?iso-8859-1?Q?M=FCller?=\" <m@example.org>", "Müller = m@example.org"),
        ("\"ada\"@example.org", "ada@example.org"),
        ("<ada@köln.de>", "ada@köln.de"),
        ("< ada@example.org >", "ada@example.org"),
        ("root@localhost", "root@localhost"),
        ("'Ada' <ada@example.org>", "Ada = ada@example.org"),
        ("Friends: a@x.org, b@y.org;", "a@x.org | b@y.org odd"),
        ("undisclosed-recipients:;", " odd"),
    ] {
        assert_eq!(read(value), wanted, "{value:?}");
    }
}

#[test]
fn nothing_else_becomes_an_address() {
    for (value, wanted) in [
        ("ada@bank.org <evil@x.org>", "ada@bank.org = evil@x.org"),
        ("\"ada@bank.org\" <evil@x.org>", "ada@bank.org = evil@x.org"),
        ("\"ada@bank.org> <\" <evil@x.org>", "ada@bank.org> < = evil@x.org"),
        ("=?utf-8?q?ada=40bank.org?= <evil@x.org>", "ada@bank.org = evil@x.org"),
        ("=?utf-8?q?ada=40bank.org=20=3Cada=40bank.org=3E?= <evil@x.org>", "ada@bank.org <ada@bank.org> = evil@x.org"),
        ("=?utf-8?q?ada=40bank.org?=", " odd"),
        ("=?utf-8?q?ada?=@bank.org", " odd"),
        ("<ada@bank.org> <evil@x.org>", " odd"),
        ("<ada@bank.org> evil@x.org", " odd"),
        ("evil@x.org <ada@bank.org", " odd"),
        ("ada@bank.org evil@x.org", " odd"),
        ("ada@bank.org@x.org", " odd"),
        ("<@bank.org:evil@x.org>", " odd"),
        ("\"ada@bank.org\"@x.org", " odd"),
        ("\"a b\"@x.org", " odd"),
        ("a b@x.org", " odd"),
        ("ada@ bank.org", " odd"),
        ("ada(c)@bank.org", " odd"),
        ("(ada@bank.org) evil@x.org", "ada@bank.org = evil@x.org"),
        ("evil@x.org (ada@bank.org", " odd"),
        ("\"ada@bank.org", " odd"),
        ("ada@bank.org,", "ada@bank.org odd"),
        ("ada@bank..org", " odd"),
        ("ada@.org", " odd"),
        ("@bank.org", " odd"),
        ("ada", " odd"),
        ("ada@[10.0.0.1]", " odd"),
        ("ada@bank.org\u{202E}", " odd"),
        ("a\u{200B}da@bank.org", " odd"),
        ("ada＠bank.org", " odd"),
        ("ada@bank。org", " odd"),
        ("ada@bank.org\0", " odd"),
        ("ada@bank.org:evil@x.org", "evil@x.org odd"),
        ("ada@bank.org\\,evil@x.org", "evil@x.org odd"),
        ("a,b <c@x.org>", "b = c@x.org odd"),
    ] {
        assert_eq!(read(value), wanted, "{value:?}");
    }
    assert_eq!(List::parse(&"a@x.org,".repeat(9_000)).mailboxes.len(), 200);
    assert!(List::parse(&"(".repeat(60_000)).odd);
}
