//! Writing a letter.

use jiff::Timestamp;
use mail_builder::MessageBuilder;
use mail_builder::headers::raw::Raw;
use pulldown_cmark::{Event, Options, Parser, Tag, html};

use super::letter::Mailbox;

/// What a letter is made of.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    pub from: &'a Mailbox,
    /// Nobody, in a draft that its owner will address.
    pub to: Option<&'a str>,
    pub subject: &'a str,
    /// Markdown. It goes along as it is, and as HTML beside that.
    pub text: &'a str,
    /// Without angle brackets.
    pub message_id: &'a str,
    /// The letter that it answers.
    pub in_reply_to: Option<&'a str>,
    /// From the thread's first letter to the one that it answers.
    pub references: &'a [String],
    pub date: Timestamp,
    /// No person wrote it (RFC 3834): machines don't answer it.
    pub automatic: bool,
    pub files: &'a [AttachedFile<'a>],
}

/// A file that goes along with a letter.
#[derive(Clone, Copy, Debug)]
pub struct AttachedFile<'a> {
    pub name: &'a str,
    /// Such as `text/csv`.
    pub media_type: &'a str,
    pub content: &'a [u8],
}

/// The letter as it goes over the wire, in ASCII.
pub fn compose(draft: &Draft<'_>) -> Vec<u8> {
    let line = |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    let name = draft.from.name.as_deref().map(line);
    let mut letter = MessageBuilder::new()
        .from((name.unwrap_or_default(), draft.from.address.clone()))
        .subject(line(draft.subject).trim().to_owned())
        .message_id(draft.message_id.to_owned())
        .date(draft.date.as_second())
        .text_body(draft.text.to_owned())
        .html_body(shown_as_html(draft.text));
    for file in draft.files {
        letter = letter.attachment(file.media_type.to_owned(), line(file.name), file.content.to_vec());
    }
    if let Some(to) = draft.to {
        letter = letter.to(to.to_owned());
    }
    if let Some(answered) = draft.in_reply_to {
        letter = letter.in_reply_to(answered.to_owned());
    }
    if !draft.references.is_empty() {
        letter = letter.references(draft.references.to_vec());
    }
    if draft.automatic {
        let kind = if draft.in_reply_to.is_some() { "auto-replied" } else { "auto-generated" };
        letter = letter.header("Auto-Submitted", Raw::new(kind));
    }
    // Writing into memory does not fail.
    letter.write_to_vec().unwrap_or_default()
}

/// Markdown as HTML that shows what it says and fetches nothing: tags in it are text, pictures are links.
fn shown_as_html(markdown: &str) -> String {
    let safe = |url: &str| ["https://", "http://", "mailto:"].iter().any(|scheme| url.starts_with(scheme));
    let mut links = Vec::new();
    let events =
        Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH).map(|event| match event {
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                Event::Start(Tag::Link { link_type, dest_url, title, id })
            }
            Event::End(pulldown_cmark::TagEnd::Image) => Event::End(pulldown_cmark::TagEnd::Link),
            // A line that was broken stays broken, as in the text beside it.
            Event::SoftBreak => Event::HardBreak,
            other => other,
        });
    let events = events.filter(|event| match event {
        Event::Start(Tag::Link { dest_url, .. }) => {
            links.push(safe(dest_url));
            safe(dest_url)
        }
        Event::End(pulldown_cmark::TagEnd::Link) => links.pop().unwrap_or(false),
        _ => true,
    });
    let mut shown = String::new();
    html::push_html(&mut shown, events);
    shown
}

/// The subject of an answer.
pub fn answer_subject(subject: &str) -> String {
    let bare = bare_subject(subject);
    if bare.is_empty() { "Re: your message".to_owned() } else { format!("Re: {bare}") }
}

/// A subject without the marks of answers and of letters passed on, in the languages that people's programs speak.
pub fn bare_subject(subject: &str) -> &str {
    const MARKS: [&str; 13] = ["re", "aw", "wg", "fw", "fwd", "sv", "vs", "antw", "ref", "odp", "tr", "rif", "回复"];
    let mut rest = subject.trim();
    while let Some((mark, behind)) = rest.split_once([':', '：']) {
        let mark = mark.trim_end_matches(|c: char| c.is_ascii_digit() || "[]()".contains(c)).trim();
        if !MARKS.iter().any(|known| known.eq_ignore_ascii_case(mark)) {
            break;
        }
        rest = behind.trim();
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail_parser::MimeHeaders;

    fn composed(text: &str, subject: &str) -> String {
        let from =
            Mailbox { name: Some("Household\r\nBcc: x@y.org".to_owned()), address: "home@example.org".to_owned() };
        let raw = compose(&Draft {
            from: &from,
            to: Some("ada@example.org"),
            subject,
            text,
            message_id: "1.butlerd@example.org",
            in_reply_to: Some("0@example.org"),
            references: &["0@example.org".to_owned()],
            date: Timestamp::UNIX_EPOCH,
            automatic: true,
            files: &[AttachedFile {
                name: "Übersicht.csv", media_type: "text/csv", content: "a,ä\n1,2\n".as_bytes()
            }],
        });
        String::from_utf8(raw).unwrap()
    }

    #[test]
    fn a_letter_is_ascii_and_holds_no_lines_of_others() {
        let raw = composed("Grüße **fett**\n.\nEnde", "Straße\r\nBcc: evil@example.org");
        assert!(raw.is_ascii(), "{raw}");
        let head = raw.split("\r\n\r\n").next().unwrap();
        assert!(!head.lines().any(|line| line.to_lowercase().starts_with("bcc")), "{head}");
        for line in
            ["Message-ID: <1.butlerd@example.org>", "In-Reply-To: <0@example.org>", "Auto-Submitted: auto-replied"]
        {
            assert!(head.contains(line), "{line}: {head}");
        }
        let read = mail_parser::MessageParser::default().parse(raw.as_bytes()).unwrap();
        assert_eq!(
            read.body_text(0).unwrap().trim(),
            "Grüße **fett**\n.\nEnde".replace('\n', "\r\n").trim().replace("\r\n", "\n")
        );
        assert!(read.body_html(0).unwrap().contains("<strong>fett</strong>"));
        let file = read.attachment(0).unwrap();
        assert_eq!((file.attachment_name(), file.contents()), (Some("Übersicht.csv"), "a,ä\n1,2\n".as_bytes()));
    }

    #[test]
    fn html_shows_what_the_text_says_and_no_more() {
        let shown = shown_as_html(
            "a <script>x</script> ![p](https://a.example/i.png) [l](javascript:y) [m](https://b.example)",
        );
        assert!(!shown.contains("<script") && !shown.contains("<img") && !shown.contains("javascript"), "{shown}");
        assert!(shown.contains("href=\"https://b.example\""), "{shown}");
    }

    #[test]
    fn subjects_lose_their_marks() {
        for (subject, bare) in [("Re: AW: Fwd: Trip", "Trip"), ("Re[2]: x", "x"), ("Report: x", "Report: x"), ("", "")]
        {
            assert_eq!(bare_subject(subject), bare);
        }
        assert_eq!(answer_subject("WG: Rechnung"), "Re: Rechnung");
    }
}
