//! A hundred forms of links, and texts thrown together from their parts.

use super::*;

/// What a program that draws or previews the text would make a link of, or fetch. Its own reading, not that of the
/// code.
fn sees(text: &str) -> Option<String> {
    for pair in ["](", "][", "]:", "![", "[[", "\\\\"] {
        if text.contains(pair) {
            return Some(pair.to_owned());
        }
    }
    let flat: Vec<char> = text.chars().filter(|c| !"\\*_~`|\u{200C}\u{200D}\u{FE0F}\u{301}".contains(*c)).collect();
    let at = |n: usize| flat.get(n).copied().unwrap_or(' ');
    let back = |n: usize, of: &dyn Fn(char) -> bool| flat[..n].iter().rev().take_while(|c| of(**c)).count();
    for n in 0..flat.len() {
        let here: String = flat[n.saturating_sub(12)..(n + 12).min(flat.len())].iter().collect();
        let bad = match at(n) {
            '<' => at(n + 1).is_ascii_alphabetic() || "/!?@#".contains(at(n + 1)),
            '&' => {
                at(n + 1) == '#' || {
                    let name = flat[n + 1..].iter().take_while(|c| c.is_ascii_alphanumeric()).count();
                    name > 0 && at(n + 1 + name) == ';'
                }
            }
            '.' | '．' | '․' | '﹒' => {
                let (left, right) = (if n > 0 { at(n - 1) } else { ' ' }, at(n + 1));
                let tail = flat[n + 1..].iter().take_while(|c| c.is_alphanumeric()).count();
                let domain = left.is_alphanumeric() && right.is_alphabetic() && tail > 1;
                let run = |c: char| c.is_ascii_digit() || c == '.';
                let begin = n - back(n, &run);
                let number: String = flat[begin..].iter().take_while(|c| run(**c)).collect();
                domain || number.parse::<std::net::Ipv4Addr>().is_ok()
            }
            ':' | '：' => {
                let word = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                let length = back(n, &word);
                let scheme: String = flat[n - length..n].iter().collect();
                let dead = ["hxxp", "hxxps"].contains(&scheme.as_str());
                let known = ["http", "https", "javascript", "data"].contains(&scheme.to_lowercase().as_str());
                // A wide colon stands in Chinese sentences.
                let begins = (at(n) == ':' || known) && scheme.starts_with(|c: char| c.is_ascii_alphabetic());
                // No scheme has one letter; a program takes `a:` for a list or a drive.
                !dead && !at(n + 1).is_whitespace() && begins && length > 1
            }
            _ => false,
        };
        if bad {
            return Some(here);
        }
    }
    None
}

const FORMS: [&str; 104] = [
    "https://evil.org",
    "http://evil.org/",
    "HTTPS://EVIL.ORG/?w=82",
    "hTtPs://evil.org/x",
    "see https://evil.org/a?b=c#d now",
    "https://evil.org.",
    "(https://evil.org/a)",
    "https://user:pass@evil.org/x",
    "https://82kg@evil.org",
    "https://82-point-4-kilograms.evil.org/",
    "https://a.b.c.d.e.f.evil.org",
    "https://evil.org:8443/x",
    "https://192.0.2.1/x",
    "https://[2001:db8::1]/x",
    "https://3221225985/x",
    "https:evil.org/x",
    "https:/evil.org/x",
    "https:\\\\evil.org\\x",
    "//evil.org/x",
    "\\\\evil.org\\share",
    "\\\\evil\\share\\x.png",
    "evil.org",
    "evil.org/82kg",
    "www.evil.org",
    "WWW.EVIL.ORG/?82",
    "82kg.evil.org",
    "evil.zip",
    "192.0.2.1",
    "192.0.2.1:80/82kg",
    "evil.org:80",
    "localhost:8080/x",
    "ftp://evil.org/x",
    "ws://evil.org/x",
    "file:///etc/passwd",
    "data:text/html;base64,PHNjcmlwdD4=",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "vbscript:x",
    "mailto:eve@evil.org",
    "mailto:eve@evil.org?subject=82kg&body=secret",
    "tel:+491234",
    "sms:+491234?body=82",
    "tg://resolve?domain=eve",
    "whatsapp://send?text=82",
    "intent://evil.org#Intent;scheme=https;end",
    "bitcoin:1BoatSLRHtKNngkdXEeobR76b53LETtpyT?amount=1",
    "magnet:?xt=urn:btih:82",
    "blob:https://evil.org/x",
    "view-source:https://evil.org",
    "slack://open?team=82",
    "eve@evil.org",
    "Eve <eve@evil.org>",
    "<https://evil.org/x>",
    "<mailto:eve@evil.org>",
    "<https://evil.org/x|click here>",
    "<@U82>",
    "<!channel>",
    "[click](https://evil.org/?w=82)",
    "[click](<https://evil.org/x> \"title\")",
    "[click](/relative?w=82)",
    "[click][ref]\n\n[ref]: https://evil.org/x",
    "[ref]\n\n[ref]: /relative",
    "[ref]:evil.org",
    "![](https://evil.org/p.png?w=82)",
    "![alt](/p.png)",
    "![alt][ref]",
    "[![img](https://evil.org/p.png)](https://evil.org)",
    "[[wiki]]",
    "[[https://evil.org][click]]",
    "[[File:p.png]]",
    "[img]https://evil.org/p.png[/img]",
    "[url=https://evil.org]x[/url]",
    "[https://evil.org click]",
    "\"click\":https://evil.org",
    "<img src=\"https://evil.org/p.png?w=82\">",
    "<IMG SRC=//evil.org/p.png>",
    "<img\nsrc=https://evil.org/p.png>",
    "<a href='https://evil.org'>x</a>",
    "<link rel=preload href=//evil.org>",
    "<!-- --><svg/onload=x>",
    "<video poster=//evil.org/x>",
    "<?xml-stylesheet href=\"//evil.org\"?>",
    "&lt;img src=x&gt;",
    "https&colon;//evil&period;org",
    "&#104;ttps://evil.org",
    "https&#58;//evil&#46;org",
    "https&#x3a;&#x2f;&#x2f;evil&#x2e;org",
    "ht\u{200B}tps://evil.org/x",
    "https:\u{200B}//evil.org/x",
    "https://ev\u{AD}il.org/x",
    "evil\u{200D}.org",
    "evil\u{2060}.\u{2060}org",
    "https://evil。org/x",
    "https://evil．org/x",
    "evil｡org/x",
    "evil․org",
    "ｈｔｔｐｓ：／／evil．org",
    "https://еvil.org/x",
    "https://xn--vil-6kd.org/x",
    "例え.jp/82",
    "evil**.**org",
    "evil\\.org and https\\://evil\\.org",
    "h*tt*ps://evil.org",
    "https:\n//evil.\norg/x",
];

#[test]
fn a_hundred_forms_of_links_do_nothing() {
    for form in FORMS {
        let told = inert(form);
        assert_eq!(sees(&told), None, "{form:?} became {told:?}");
        assert!(sees(form).is_some() || form.contains("//") || form.contains('。') || form.contains("org"), "{form:?}");
    }
}

#[test]
fn a_link_is_shown_defanged_with_what_it_carries() {
    for (text, told) in [
        ("see https://example.org/about.", "see hxxps://example[.]org/about."),
        ("https://www.example.org", "hxxps://www[.]example[.]org"),
        ("https://example.org/p?w=82.4kg", "hxxps://example[.]org/… (this address carries 10 characters: p?w=82.4kg)"),
        ("[x](https://example.org/?82)", "[x] (hxxps://example[.]org/… (this address carries 3 characters: ?82))"),
        ("https://82kg@example.org/", "hxxps://example[.]org/ (this address carries 4 characters: 82kg)"),
        (
            "https://eighty-two-kilos.example.org/",
            "hxxps://eighty-two-kilos[.]example[.]org/ (this address carries 16 characters: eighty-two-kilos)",
        ),
        ("example.org/82", "example[.]org/… (this address carries 2 characters: 82)"),
        ("mailto:a@example.org?body=82", "mailto[:]a@example[.]org… (this address carries 7 characters: body=82)"),
        (
            "data:text/plain;base64,ODIga2c9PT09",
            "data[:]… (this address carries 30 characters: text/plain;base64,ODIga2c9PT09)",
        ),
    ] {
        assert_eq!(inert(text), told);
    }
}

#[test]
fn what_is_no_link_stays_as_it_is() {
    for text in [
        "You weigh 82.4 kg, 0.5 less than on 23.11.2026 at 10:30.",
        "Dear Ada,\n\nthe meeting is moved (to room 3) [1] <3 & more; e.g. p.m. U.S. A. B.",
        "1.234.567,89 € and 1.234.567.890 and version 1.2.3",
        "Note: this is it. Really! a < b && c > d; x[0] = 1",
        "今天很好。明天也好。 注意：内容",
        "❤\u{FE0F} 👩\u{200D}👧 *bold* _it_ ~no~ `code`",
        "10:30:15 and 3:1, ok?\tTab",
    ] {
        assert_eq!(inert(text), text);
    }
}

#[test]
fn the_owners_own_text_keeps_its_links() {
    let text = "https://example.org/?w=82 ![](x)";
    assert_eq!(for_owner(text, Trust::Owner), text);
    assert_eq!(for_owner(text, Trust::System), text);
    for less in [Trust::Known, Trust::Stranger] {
        assert_eq!(for_owner(text, less), inert(text));
    }
}

#[test]
fn whatever_is_thrown_together_does_nothing() {
    const PARTS: [&str; 44] = [
        "http",
        "https",
        "HTTPS",
        ":",
        "//",
        "/",
        ".",
        "evil",
        "org",
        "a",
        "1",
        "192.0.2.1",
        "@",
        "[",
        "]",
        "(",
        ")",
        "!",
        "<",
        ">",
        "img",
        " src=",
        "&",
        "#58;",
        "colon;",
        "\\",
        "*",
        "_",
        "`",
        "|",
        "\u{200B}",
        "\u{200D}",
        "\u{FE0F}",
        "\u{301}",
        "。",
        "．",
        "：",
        " ",
        "\n",
        "javascript",
        "data",
        "?q=",
        "example.org/82kg",
        "é",
    ];
    // A generator of its own: the same texts on every machine.
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |most: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % most as u64).unwrap()
    };
    for _ in 0..20_000 {
        let text: String = (0..2 + draw(14)).map(|_| PARTS[draw(PARTS.len())]).collect();
        let told = inert(&text);
        assert_eq!(sees(&told), None, "{text:?} became {told:?}");
    }
}

#[test]
fn a_long_text_takes_no_time() {
    for part in ["1.", "a.", "a:", "*.", "[", "&", "https://a.b.c/", ":://", "\u{301}."] {
        let begun = std::time::Instant::now();
        inert(&part.repeat(65_536 / part.len()));
        assert!(begun.elapsed().as_secs() < 5, "{part:?}: {:?}", begun.elapsed());
    }
}
