use super::*;
use crate::tests::processor_time;

/// Letters with a `SECRET` that nobody sees, and an `OPEN` word that everybody sees.
const HIDDEN: &[&str] = &[
    "OPEN<div style='display:none'>SECRET</div>",
    "OPEN<div style='display: none !important; display:block'>SECRET</div>",
    "OPEN<div style='DISPLAY:NONE'>SECRET</div>",
    r"OPEN<div style='display:n\6fne'>SECRET</div>",
    "OPEN<div style='display:/**/none;display:bogus'>SECRET</div>",
    "OPEN<div style='display:none'><p style='display:block;visibility:visible;color:red'>SECRET</p></div>",
    "OPEN<p style='visibility:hidden'>SECRET</p>",
    "OPEN<p style='visibility:collapse'>SECRET</p>",
    "OPEN<p hidden>SECRET</p>",
    "OPEN<p style='opacity:0'>SECRET</p>",
    "OPEN<p style='opacity:.3'><b style='opacity:20%'>SECRET</b></p>",
    "OPEN<p style='font-size:0'>SECRET</p>",
    "OPEN<p style='font-size:1px'>SECRET</p>",
    "OPEN<p style='font-size:2pt'>SECRET</p>",
    "OPEN<p style='font-size:.1em'>SECRET</p>",
    "OPEN<p style='font-size:50%'><b style='font-size:20%'>SECRET</b></p>",
    "OPEN<p style='font:0/0 a'>SECRET</p>",
    "OPEN<p style='font:bold 1px/20px Arial, sans-serif'>SECRET</p>",
    "OPEN<p style='font-size:calc(1px * 0)'>SECRET</p>",
    "OPEN<p style='font-size:min(1px, 2em)'>SECRET</p>",
    "OPEN<p style='font-size:1px;font-size:16'>SECRET</p>",
    "OPEN<p style='color:white'>SECRET</p>",
    "OPEN<p style='color:#fefefe'>SECRET</p>",
    "OPEN<p style='color:rgb(255 255 255 / 100%)'>SECRET</p>",
    "OPEN<p style='color:hsl(0,0%,99%)'>SECRET</p>",
    "OPEN<p style='color:oklch(1 0 0)'>SECRET</p>",
    "OPEN<p style='color:color-mix(in srgb, white 50%, #fff)'>SECRET</p>",
    "OPEN<p style='color:transparent'>SECRET</p>",
    "OPEN<p style='color:rgba(0,0,0,.01)'>SECRET</p>",
    "OPEN<p style='-webkit-text-fill-color:white'>SECRET</p>",
    "OPEN<font color=white>SECRET</font>",
    "OPEN<font color='#FFFFFE'>SECRET</font>",
    "<body text=white><font color=black>OPEN</font>SECRET",
    "OPEN<table bgcolor=black><tr><td style='color:#111'>SECRET</table>",
    "OPEN<div style='background:#123456'><p style='color:#123457'>SECRET</p></div>",
    "OPEN<div style='background-color:rgba(0,0,0,.99);color:black'>SECRET</div>",
    "OPEN<div style='background:linear-gradient(#fff,#fefefe);color:white'>SECRET</div>",
    "OPEN<div style='background:url(x.png);color:white'>SECRET</div>",
    "OPEN<a href='https://a.example' style='color:white'>SECRET</a>",
    "OPEN<p style='position:absolute;left:-9999px'>SECRET</p>",
    "OPEN<p style='position:fixed;top:-100em'>SECRET</p>",
    "OPEN<p style='position:absolute;inset:-9999px auto auto auto'>SECRET</p>",
    "OPEN<p style='text-indent:-9999px'>SECRET</p>",
    "OPEN<p style='margin-left:-9999px'>SECRET</p>",
    "OPEN<p style='margin:0 0 0 -9999px'>SECRET</p>",
    "OPEN<p style='transform:translateX(-9999px)'>SECRET</p>",
    "OPEN<p style='transform:rotate(1deg)scale(0)'>SECRET</p>",
    "OPEN<p style='transform:rotateY(90deg)'>SECRET</p>",
    "OPEN<p style='scale:0'>SECRET</p>",
    "OPEN<p style='zoom:.01'>SECRET</p>",
    "OPEN<div style='height:0;overflow:hidden'>SECRET</div>",
    "OPEN<div style='max-height:1px;overflow:hidden'>SECRET</div>",
    "OPEN<div style='width:0;overflow:hidden'>SECRET</div>",
    "OPEN<span style='display:block;max-width:0;overflow:hidden'>SECRET</span>",
    "OPEN<div style='height:0;overflow-y:auto'>SECRET</div>",
    "OPEN<p style='position:absolute;clip:rect(0,0,0,0)'>SECRET</p>",
    "OPEN<p style='position:absolute;clip:rect(1px 1px 1px 1px)'>SECRET</p>",
    "OPEN<p style='clip-path:inset(100%)'>SECRET</p>",
    "OPEN<p style='clip-path:inset(0 0 100% 0)'>SECRET</p>",
    "OPEN<p style='clip-path:circle(0 at 50% 50%)'>SECRET</p>",
    "OPEN<p style='clip-path:polygon(0 0,0 0,0 0)'>SECRET</p>",
    "OPEN<p style='mso-hide:all'>SECRET</p>",
    "OPEN<div style='line-height:0;overflow:hidden'>SECRET</div>",
    "OPEN<p style='filter:opacity(0)'>SECRET</p>",
    "OPEN<p style='letter-spacing:-1em'>SECRET</p>",
    "OPEN<p style='content-visibility:hidden'>SECRET</p>",
    "OPEN<template>SECRET<template>SECRET</template></template>",
    "OPEN<div><template shadowrootmode=open>x</template>SECRET</div>",
    "OPEN<input type=hidden value=SECRET>",
    "OPEN<select><option>SECRET</option></select>",
    "OPEN<datalist><option>SECRET</datalist>",
    "OPEN<dialog>SECRET</dialog>",
    "OPEN<iframe>SECRET</iframe>",
    "OPEN<video>SECRET</video>",
    "OPEN<noembed>SECRET</noembed>",
    "OPEN<svg><title>SECRET</title><desc>SECRET</desc><metadata>SECRET</metadata></svg>",
    "OPEN<svg>SECRET<text fill='white'>SECRET</text><text fill=none>SECRET</text></svg>",
    "OPEN<math><annotation>SECRET</annotation></math>",
    "OPEN<img src=x alt=SECRET width=1 height=1>",
    "OPEN<img src=x alt=SECRET style='display:none'>",
    "OPEN<p title=SECRET aria-label=SECRET>x</p>",
    "OPEN<style>.a{display:none}</style><p class=a>SECRET</p>",
    "OPEN<style>P.A{DISPLAY:NONE}</style><p class='b A'>SECRET</p>",
    "OPEN<style>.A{display:none}</style><p class=a>SECRET</p>",
    r"OPEN<style>.\61 {display:none}</style><p class=a>SECRET</p>",
    "OPEN<style>div > p#x{display:none}</style><div><p id=x>SECRET</p></div>",
    "OPEN<style>[data-x=y]{display:none}</style><p data-x=y>SECRET</p>",
    "OPEN<style>p:not(.b){font-size:0}</style><p>SECRET</p>",
    "OPEN<style>h1 + p{opacity:0}</style><h1>OPEN</h1><p>SECRET</p>",
    "OPEN<style>h1 ~ p:last-child{opacity:0}</style><div><h1>OPEN</h1><b></b><p>SECRET</p></div>",
    "OPEN<style>p:is(.b,.a){display:none}</style><p class=a>SECRET</p>",
    "OPEN<style>div:has(p) p{display:none}</style><div><p>SECRET</p></div>",
    "OPEN<style>div{& .a{display:none}}</style><div><p class=a>SECRET</p></div>",
    "OPEN<style>div{.a{display:none}}</style><div><p class=a>SECRET</p></div>",
    "OPEN<style>@media screen{.a{display:none}}</style><p class=a>SECRET</p>",
    "OPEN<style>@media (max-width:9999px){.a{display:none}}</style><p class=a>SECRET</p>",
    "OPEN<style>@media (min-width:1200px){.a{display:none}}</style><p class=a>SECRET</p>",
    "OPEN<style>@media (prefers-color-scheme:light){.a{display:none}}</style><p class=a>SECRET</p>",
    "OPEN<style>@supports (display:block){.a{display:none}}</style><p class=a>SECRET</p>",
    "OPEN<style>@layer x{.a{display:none}}</style><p class=a>SECRET</p>",
    "OPEN<style>.a{display:none}@layer x{.a{display:block}}</style><p class=a>SECRET</p>",
    "OPEN<style>.a{display:none}.a,::bogus{display:block!important}</style><p class=a>SECRET</p>",
    "OPEN<style>.a{display:none}@media all{.y{color:rgb(}}.a{display:block}</style><p class=a>SECRET</p>",
    "OPEN<style>.a{display:none}@media print{.a{display:block}}</style><p class=a>SECRET</p>",
    "OPEN<style>#x{display:none}.a{display:block}</style><p class=a id=x>SECRET</p>",
    "OPEN<style>.a{display:none!important}</style><p class=a style='display:block'>SECRET</p>",
    "OPEN<style>.a{display:none",
    "OPEN<style>:root{--c:none}.a{display:var(--c)}</style><p class=a>SECRET</p>",
    "OPEN<style>.a{color:var(--none, white)}</style><p class=a>SECRET</p>",
    "OPEN<style>@keyframes x{from{opacity:1}to{opacity:0}}.a{animation:x 1ms forwards}</style><p class=a>SECRET</p>",
    "OPEN<style>u + .body .a{display:none}</style><div class=body><p class=a>SECRET</p></div>",
    "OPEN<style>.a{color:#fff}</style><p class=a>SECRET</p>",
    "OPEN<!-- SECRET -->",
    "OPEN<!--> OPEN <!-- SECRET -->",
    "OPEN<!---> OPEN <!-- SECRET --!> OPEN",
    "OPEN<!-- SECRET",
    "OPEN<![CDATA[SECRET]]>",
    "OPEN<?php SECRET ?>",
    "OPEN<!--[if mso]>SECRET<![endif]-->",
    "<title>SECRET</title><script>SECRET</script><style>SECRET</style>OPEN",
    "OPEN<table style='display:none'><tr><td>SECRET</table>",
    "OPEN<div style='display:none'></p></span>SECRET",
    "OPEN<p style='display:none'><b>SECRET</b>",
    "OPEN<b a='>' style='display:none'>SECRET</b>",
    "OPEN<p style=\"display:none\" style=\"display:block\">SECRET</p>",
    "OPEN<p class=x style='&#100;isplay:none'>SECRET</p>",
    "OPEN<math><annotation-xml encoding='text/html'><p>SECRET</p></annotation-xml></math>",
    "OPEN<style><!-- p{display:none} --></style><p>SECRET</p>",
    "OPEN<style>p{content:'}';display:none}</style><p>SECRET</p>",
    "OPEN<style>p{display:none}</style><style>@media print{p{display:block}}</style><p>SECRET</p>",
    "OPEN<style>p{font-size:0!important}</style><p style='font-size:20px'>SECRET</p>",
    "OPEN<div style='overflow:hidden;height:0'><p style='position:relative;height:99px'>SECRET</p></div>",
    "OPEN<b style='display:none'><table><tr><td>x</td></tr>SECRET</table></b>",
    "OPEN<noscript><p style='display:none'>SECRET</p></noscript>",
];

#[test]
fn what_nobody_sees_is_not_in_the_text() {
    let mut wrong = Vec::new();
    for html in HIDDEN {
        let shown = shown(html, 100_000);
        let free = ["[if mso]", "<title>", "title=", ".a{display:none"].iter().any(|f| html.contains(f));
        if shown.text.contains("SECRET") || !shown.text.contains("OPEN") || shown.hidden < 6 && !free {
            wrong.push(format!("{html}\n    {shown:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_hidden_is_counted() {
    assert_eq!(shown("a<p hidden>b c</p>", 100), Shown { text: "a".to_owned(), hidden: 2 });
    assert_eq!(shown("a<!-- b c -->", 100).hidden, 2);
    assert_eq!(shown("a<!--[if mso]>b<![endif]--><title>c</title><style>d</style>", 100).hidden, 0);
    let tags: String = "hi".chars().filter_map(|c| char::from_u32(0xE0000 + u32::from(c))).collect();
    for (html, text, hidden) in [
        (format!("a{tags}b"), "ab", 2),
        ("a&zwnj;&#8203;b&shy;c".to_owned(), "abc", 3),
        ("a&#x202E;b&#x2066;c".to_owned(), "abc", 2),
        ("a&#xFFF9;b".to_owned(), "ab", 1),
        ("x&#xFE01;&#xE0101;".to_owned(), "x", 2),
        ("👩\u{200D}👧 ❤\u{FE0F} ⟨U+200B⟩".to_owned(), "👩\u{200D}👧 ❤\u{FE0F} ⟨U+200B⟩", 0),
    ] {
        assert_eq!(shown(&html, 100), Shown { text: text.to_owned(), hidden }, "{html}");
    }
}

/// Letters that a person sees `OPEN` in.
const SEEN: &[&str] = &[
    "<body style='background:#000'><p style='color:#fff'>OPEN</p>",
    "<table bgcolor='#111111'><tr><td><font color=white>OPEN</font></table>",
    "<table><tr><td bgcolor=navy style='color:#ffffff'>OPEN</td></table>",
    "<table><tr style='background-color:#222'><td style='color:#eee'><a href='#' style='color:#fff'>OPEN</a></table>",
    "<div style='background-image:linear-gradient(#000,#333);color:white'>OPEN</div>",
    "<p style='color:#bbb'>OPEN</p>",
    "<p style='color:#999999;font-size:8px'>OPEN</p>",
    "<p style='font-size:7.5pt;line-height:1'>OPEN</p>",
    "<td style='font-size:0'><table><tr><td style='font-size:14px'>OPEN</table>",
    "<div style='font-size:0;line-height:0'><div style='font-size:16px;line-height:20px'>OPEN</div></div>",
    "<div style='visibility:hidden'><p style='visibility:visible'>OPEN</p></div>",
    "<div style='color:white'><p style='color:black'>OPEN</p></div>",
    "<div style='color:white'><a href='https://a.example/'>OPEN</a></div>",
    "<style>@media print{.a{display:none}}</style><p class=a>OPEN</p>",
    "<style>@media only screen and (max-width:600px){.a{display:none!important}}</style><p class=a>OPEN</p>",
    "<style>@media (prefers-color-scheme:dark){.a{color:white}}</style><p class=a>OPEN</p>",
    "<style>a:hover{color:white;display:none}</style><p><a href='#'>OPEN</a></p>",
    "<style>p::before{display:none}</style><p>OPEN</p>",
    "<style>.b{display:none}</style><p class=a>OPEN</p>",
    "<style>.a{display:none}#x{display:block}</style><p class=a id=x>OPEN</p>",
    "<style>tr:nth-child(odd) td{background:#222;color:#eee}</style><table><tr><td>OPEN</table>",
    "<style>#outlook a{padding:0}.ExternalClass *{line-height:100%}</style><p>OPEN</p>",
    "<style>%bad{display:none}</style><p>OPEN</p>",
    "<style>:root{--c:#fff;--b:#000}p{color:var(--c);background:var(--b)}</style><p>OPEN</p>",
    "<!--[if !mso]><!--><p>OPEN</p><!--<![endif]-->",
    "<!--[if !mso]><!-- --><p style='mso-hide:all'>OPEN</p><!--<![endif]-->",
    "<![if !mso]><p>OPEN</p><![endif]>",
    "<div><!--[if mso]><v:rect>x</v:rect><![endif]--><a href='https://a.example' style='mso-hide:all'>OPEN</a></div>",
    "<span style='height:0;overflow:hidden'>OPEN</span>",
    "<table><tr><td style='height:0;overflow:hidden'>OPEN</table>",
    "<td style='max-width:0;overflow:hidden;text-overflow:ellipsis'>OPEN</td>",
    "<div style='width:100%;max-width:600px;overflow:hidden'>OPEN</div>",
    "<div style='opacity:.6'>OPEN</div>",
    "<div style='position:relative;left:-10px;margin-left:-20px'>OPEN</div>",
    "<div style='position:absolute;left:50%;transform:translate(-50%,-50%)'>OPEN</div>",
    "<noscript>OPEN</noscript>",
    "<details><summary>x</summary>OPEN</details>",
    "<textarea>OPEN</textarea>",
    "<xmp>OPEN</xmp>",
    "<plaintext>OPEN",
    "<object>OPEN</object>",
    "<svg width=100 height=20><text x=1 y=1>OPEN</text></svg>",
    "<svg><foreignObject><p>OPEN</p></foreignObject></svg>",
    "<table>OPEN<tr><td>x</table>",
    "<p><img src=x alt=OPEN></p>",
    "<button>OPEN</button><input type=submit value=OPEN>",
    "<center><font size=1>OPEN</font></center>",
    "<p style='display:table-cell'>OPEN",
    "<p style='color:bogus'>OPEN",
    "<mark style='color:white;background:navy'>OPEN</mark>",
    "<p style='font:14px/0 Arial'>OPEN</p>",
    "<h6><small>OPEN</small></h6>",
    "<p style='color:#ff0000;background:#00aa00'>OPEN</p>",
];

#[test]
fn what_a_person_sees_is_in_the_text() {
    let wrong: Vec<String> = SEEN
        .iter()
        .map(|html| (html, shown(html, 100_000)))
        .filter(|(_, shown)| !shown.text.contains("OPEN"))
        .map(|(html, shown)| format!("{html}\n    {shown:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_letter_keeps_its_lines() {
    for (html, text) in [
        ("<p>a</p><p>b</p>", "a\n\nb"),
        ("<div>a</div><div>b</div>", "a\nb"),
        ("<div>a</div><div><br></div><div>b</div>", "a\n\nb"),
        ("a<br>b<br><br><br><br>c", "a\nb\n\nc"),
        ("  a \n <b> b</b>\t<i>c </i> d&nbsp;&nbsp;e", "a b c d e"),
        ("<h1>Title</h1>text", "Title\n\ntext"),
        ("<ul><li>a<li>b<ul><li>c</ul></ul>d", "- a\n- b\n  - c\n\nd"),
        ("<ol><li><p>a</p></li><li>b</ol>", "1. a\n\n2. b"),
        ("<table><tr><td>a<td>b<tr><td>c<td><p>d</p></table>e", "a | b\nc | d\n\ne"),
        ("<table><tr><td>a<td></td><td>b</table>", "a | b"),
        ("<pre>a\n  b\n\n\n\nc</pre>", "a\n  b\n\nc"),
        ("&lt;b&gt; &amp; &euro;&#8364;&notin;", "<b> & €€∉"),
        (
            "<p>a</p><blockquote><p>b</p><p>c</p><blockquote>d</blockquote></blockquote>e",
            "a\n\n> b\n>\n> c\n>\n> > d\n\ne",
        ),
        ("<img alt='A cat'> and <img alt='😀'> <img>", "[A cat] and 😀"),
        ("<a href='https://a.example/x'>here</a>.", "here (https://a.example/x)."),
        ("<a href='https://a.example/'>https://a.example</a>", "https://a.example"),
        ("<a href='http://evil.example'>bank.example</a>", "bank.example (http://evil.example)"),
        ("<a href='https://bank.example@evil.example/x'>x</a>", "x (https://evil.example/x)"),
        ("<a href='https:\\\\bank.example&Tab;@evil.example\\y'>x</a>", "x (https://evil.example\\y)"),
        ("<a href='javascript:x'>x</a> <a href='/y'>y</a> <a href='ftp://z'>z</a>", "x y z"),
        ("<a href='mailto:a@b.example?subject=x'>a@b.example</a>", "a@b.example"),
        ("<a href='https://a.example/'><div>a</div></a>b", "a (https://a.example/)\nb"),
        ("<a href='https://a.example/(x)'><p hidden>a</p></a>", ""),
        ("<td>a</td></p><b>b<i>c</b>d</i>", "a\n\nbcd"),
    ] {
        assert_eq!(shown(html, 1000).text, text, "{html}");
    }
    let long = format!("<a href='https://a.example/{}'>x</a>", "y".repeat(500));
    assert_eq!(shown(&long, 1000).text.chars().count(), 1 + 2 + LONGEST_ADDRESS + 1 + 1);
}

const LONGEST_ADDRESS: usize = 200;

#[test]
fn what_programs_quote_stands_behind_marks() {
    for (html, text) in [
        (
            "<div dir=ltr>New</div><br><div class=gmail_quote><div dir=ltr class=gmail_attr>On Monday Ada wrote:<br></div>\
             <blockquote class=gmail_quote>Old</blockquote></div>",
            "New\n\n> On Monday Ada wrote:\n>\n> Old",
        ),
        (
            "<div class=gmail_quote><div class=gmail_attr>On Monday Ada wrote:</div><blockquote>Old</blockquote>\
             <div>Between</div><blockquote>Older</blockquote></div>",
            "> On Monday Ada wrote:\n>\n> Old\n\nBetween\n\n> Older",
        ),
        (
            "See below<div class=gmail_quote><div class=gmail_attr>---------- Forwarded message ---------<br>From: Ada</div>\
             Words<blockquote>Old</blockquote></div>",
            "See below\n> > ---------- Forwarded message ---------\n> > From: Ada\n> Words\n>\n> > Old",
        ),
        (
            "<p>New</p><div id=appendonsend></div><hr><div id=divRplyFwdMsg><b>From:</b> Ada<br><b>Sent:</b> Monday</div>\
             <div>Old</div>",
            "New\n\n> > From: Ada\n> > Sent: Monday\n> > Old",
        ),
        (
            "<div class=moz-cite-prefix>On Monday, Ada wrote:</div><blockquote type=cite><div id=appendonsend></div>Old\
             </blockquote><p>New</p>",
            "> On Monday, Ada wrote:\n>\n> > Old\n\nNew",
        ),
        ("New<div class='yahoo_quoted'>Old</div>", "New\n> Old"),
        (
            "New<br><div><blockquote type=cite><div>On 3 May 2024, at 10:00, Ada wrote:</div><br><div>Old</div>\
             </blockquote></div>",
            "New\n\n> On 3 May 2024, at 10:00, Ada wrote:\n>\n> Old",
        ),
    ] {
        assert_eq!(shown(html, 1000).text, text, "{html}");
    }
}

#[test]
fn a_newsletter_is_read_as_it_is_shown() {
    let html = r##"<!DOCTYPE html><html><head><meta charset=utf-8><title>News</title><style type="text/css">
        body{margin:0} .preheader{display:none!important;mso-hide:all} @media only screen and (max-width:480px){
        .full{width:100%!important} .hide{display:none!important}} u + .body .x{width:100vw}</style>
        <!--[if gte mso 9]><xml><o:PixelsPerInch>96</o:PixelsPerInch></xml><![endif]--></head>
        <body class="body" style="background-color:#f4f4f4"><div class="preheader" style="font-size:1px;color:#f4f4f4">
        Secret preview &zwnj;&nbsp;&#847;</div><!--[if mso]><table><tr><td><![endif]--><table width="600" bgcolor="#ffffff">
        <tr><td style="background:#1a1a2e;color:#fff;font-size:0"><span style="font-size:24px">Big <b>news</b></span></td></tr>
        <tr class="hide"><td>Only here <a href="https://news.example/read?id=1" style="background:#06c;color:#fff">Read
        more</a></td></tr><tr><td><img src="https://t.example/o.gif" width="1" height="1" alt="tracker">
        <p style="font-size:10px;color:#aaaaaa">You get this because. <a href="https://news.example/u">Unsubscribe</a></p>
        </td></tr></table><!--[if mso]></td></tr></table><![endif]--></body></html>"##;
    let shown = shown(html, 10_000);
    assert_eq!(
        shown.text,
        "Big news\nOnly here Read more (https://news.example/read?id=1)\n\nYou get this because. Unsubscribe \
         (https://news.example/u)"
    );
    assert_eq!(shown.hidden, "Secretpreview".len() + 2 + "tracker".len());
}

#[test]
fn the_text_is_cut_between_characters() {
    assert_eq!(shown("ä ö ü", 4).text, "ä");
    assert_eq!(shown("ä ö ü", 5).text, "ä ö");
    assert_eq!(shown("abc", 0).text, "");
    assert!(shown(&"<blockquote>".repeat(10), 3).text.len() <= 3);
    for most in 0..40 {
        assert!(shown("<ul><li>ä<li><a href='https://a.example'>ö</a></ul><blockquote>x", most).text.len() <= most);
    }
}

#[test]
fn bombs_end_in_time() {
    let many = |text: &str, bytes: usize| text.repeat(bytes / text.len());
    let attributes: String = (0..150_000).map(|i| format!(" a{i}")).collect();
    let formats: String = (0..20_000).map(|i| format!("<b a={i}>")).collect();
    let rules: String =
        (0..4_000).map(|i| format!(".a .b{i} div.c{{color:red}} div div div p.x{i}{{top:0}}")).collect();
    let classes: String = (0..20_000).map(|i| format!("c{i} ")).collect();
    let (mega, some) = (1_000_000, 100_000);
    for (name, html) in [
        ("div", many("<div>", some)),
        ("b", many("<b>", mega)),
        ("table", many("<table>", mega)),
        ("cell", many("<table><tr><td>", some)),
        ("p", many("<p>x", some)),
        ("a", many("<a href=x>y", some)),
        ("attributes", format!("<a{attributes}>")),
        ("quoted attributes", format!("<a {}>", many("x='>'", mega))),
        ("formats", format!("{formats}{}", many("<p>x", some))),
        ("open", many("<", some)),
        ("comments", many("<!--", some)),
        ("ends", many("</p>", some)),
        ("misnested", many("<b><p></b></p><i><a><table>x", some)),
        ("select", many("<select><option>", some)),
        ("svg", many("<svg><g>", some)),
        ("entities", many("&amp", some)),
        ("lists", many("<ul><li>x", some)),
        ("quotes", many("<blockquote>x", some)),
        ("rules", format!("<style>{rules}</style>{}", many("<div class='a c'><div class=c>x</div></div>", some))),
        ("descendants", format!("<style>{}{{color:red}}</style>{}", many("div ", 150), many("<div>", some))),
        ("siblings", format!("<style>{}</style>{}", many("i~i~i~b{top:0}", 10_000), many("<i></i>", some))),
        ("nth", format!("<style>i:nth-last-child(3){{top:0}}</style>{}", many("<i></i>", some))),
        ("classes", many(&format!("<i class='{classes}'>x"), some)),
        ("css", format!("<style>{}", many("a{", some))),
        ("nested css", format!("<style>{}", many("&a,&b{", some))),
        ("is", format!("<style>{}", many(":is(", some))),
        ("not", format!("<style>{}", many(":not(a) ", some))),
        ("brackets", format!("<p style='width:{}'>x", many("calc((", some))),
        ("values", format!("<style>i{{font:{}}}</style>{}", many("1 ", 500), many("<i>", some))),
        ("variables", format!("<style>i{{--a:var(--a)var(--a);top:var(--a)}}</style>{}", many("<i></i>", some))),
        ("styles", many("<style>a{b:c}</style>", some)),
        ("templates", many("<template>", some)),
        ("spaces", many(" \n", some)),
        ("cells", format!("<table><tr>{}", many("<td>x", some))),
        ("pre", format!("<pre>{}", many("\n ", some))),
        ("hidden", many("<p hidden>x", some)),
        ("marks", many("\u{200B}⟨U+", some)),
        ("plain", many("x", some)),
        (
            "comment",
            format!("OPEN<!--[if gte mso 9]><xml>{}</xml><![endif]-->", many("<w:Lsd Locked='false' A='b'/> ", mega)),
        ),
        (
            "image",
            format!(
                "<img src='data:image/png;base64,{}'>OPEN",
                many("iVBORw0KGgoAAAANSUhEUgAABQAAAALQCAIAAABAH0oBAAAAA3NCSVQICAjb4U/g", 3 * mega)
            ),
        ),
    ] {
        let start = processor_time();
        let shown = shown(&html, 100_000);
        let took = processor_time() - start;
        assert!(shown.text.len() <= 100_000);
        assert!(took.as_secs() < 20, "{name}: {took:?}");
        assert!(!["image", "comment"].contains(&name) || shown.text == "OPEN");
    }
}

#[test]
fn what_stands_too_deep_is_counted_and_what_comes_behind_is_not_lost() {
    let deep = |n: usize| format!("{}SECRET{}OPEN", "<div>".repeat(n), "</div>".repeat(n));
    let shown = shown(&deep(600), 1000);
    assert_eq!(shown, Shown { text: "OPEN".to_owned(), hidden: 6 });
    assert!(super::shown(&deep(400), 1000).text.contains("SECRET"));
    let wrong = format!("{}<p hidden></b></b>SECRET", "<div>".repeat(600));
    assert!(!super::shown(&wrong, 1000).text.contains("SECRET"));
}

#[test]
fn no_mixture_of_tags_breaks_the_reader() {
    let bits = [
        "<b>",
        "</b>",
        "<p>",
        "</p>",
        "<table>",
        "<tr>",
        "<td>",
        "</table>",
        "<a href=x>",
        "</a>",
        "<div hidden>",
        "</div>",
        "<select>",
        "<option>",
        "</select>",
        "<svg>",
        "<title>",
        "</svg>",
        "<math>",
        "<template>",
        "</template>",
        "<!--",
        "-->",
        "<style>",
        "b{color:red}",
        "</style>",
        "<li>",
        "<ul>",
        "</ul>",
        "<blockquote>",
        "x",
        " ",
        "<br>",
        "<form>",
        "<body>",
        "<html lang=x>",
        "<frameset>",
        "<plaintext>",
        "<pre>\n",
        "<i style='color:white'>",
        "<nobr>",
        "<button>",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..3000 {
        let mut html = String::new();
        for _ in 0..40 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            html.push_str(bits[(state >> 33) as usize % bits.len()]);
        }
        let shown = shown(&html, 50);
        assert!(shown.text.len() <= 50 && !shown.text.contains("\n\n\n"), "{html:?} {shown:?}");
    }
}
