//! Quotes: what others wrote, shown to the owner whole, by a session that did not read it.

use conversation::Entry;

use super::{only_trusted, resolve};
use base::Label;
use base::text::visible::visible_line;
use tools::{ToolCall, ToolError};

/// A message of the call's with what it quotes.
pub(crate) struct Quoted {
    /// The call's own words, then the quote.
    pub message: String,
    /// Of what is quoted.
    pub label: Label,
}

/// The call's message with what its argument `quote` names below it; `None`: it quotes nothing. It is the caller's part
/// to let it reach the owner alone, and to give its row the label. The call's session is shown nothing.
pub(crate) async fn quoted(call: &ToolCall) -> Result<Option<Quoted>, ToolError> {
    if call.text("quote").is_none() {
        return Ok(None);
    }
    only_trusted(call, "quote")?;
    let said = resolve(call, "quote").await?;
    let message = below(call.text("message").unwrap_or_default(), &said);
    Ok(Some(Quoted { message, label: said.label() }))
}

/// The words with the quote below them. Each line of the quote is marked, so that none passes for the butler's.
fn below(words: &str, said: &Entry) -> String {
    let who = visible_line(said.butler.as_ref().unwrap_or(&said.person));
    let mut whole = format!("{words}\n\nQuoted, from {who} on {}, {}:\n", said.channel, said.said_at);
    let files = said.attachments.as_array().into_iter().flatten().filter_map(|file| file["filename"].as_str());
    let files: Vec<String> = files.map(visible_line).collect();
    let subject = said.subject.iter().map(|subject| format!("Subject: {subject}"));
    let files = (!files.is_empty()).then(|| format!("Files: {}", files.join(", ")));
    for part in subject.chain(said.text.clone().or_else(|| said.emoji.clone())).chain(files) {
        for line in part.split(is_break) {
            whole.push_str("> ");
            whole.push_str(line);
            whole.push('\n');
        }
    }
    whole.push_str("End of the quote.");
    whole
}

/// Whether some program begins a new line there.
fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}
