//! A letter as it was read.

use jiff::Timestamp;
use serde_json::Value;

/// How letters are read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Whose `Authentication-Results` are believed: the names that the receiving servers give themselves there.
    pub trusted_servers: Vec<String>,
    /// Bytes of text that are kept of one letter, new words and history together.
    pub most_text: usize,
    /// Files that are kept of one letter; of the others only that they were there.
    pub most_files: usize,
    /// Bytes of one file that are kept; of a larger one only its name is.
    pub largest_file: u64,
}

/// Somebody's address, and what they call themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mailbox {
    /// Without what a terminal would obey; never a proof of anything.
    pub name: Option<String>,
    /// `local@domain`: the domain in lower case.
    pub address: String,
}

/// What a letter says, apart by whose words they are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Words {
    /// What is new: the sender's own.
    pub new: String,
    /// The history that was quoted below or between, or a forwarded letter: others' words, or claimed to be.
    pub quoted: String,
    pub signature: String,
    /// Characters that a person would not have seen, and that are in none of the above.
    pub hidden: usize,
    /// The text goes on behind what is kept.
    pub cut: bool,
}

/// A file that came along.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// A plain name without folders, never empty.
    pub name: String,
    /// In lower case, `type/subtype`.
    pub media_type: String,
    /// In bytes, decoded.
    pub size: u64,
    /// `None`: it is larger than is kept, or there were too many, or its bytes did not come whole.
    pub content: Option<Vec<u8>>,
    /// It is another letter, passed on.
    pub is_letter: bool,
}

/// Why nobody expects an answer to a letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Automatic {
    /// A machine answered: out of office, a ticket number.
    Reply,
    /// It tells what became of a letter that was sent.
    Report,
    /// It went to a list.
    List,
    /// A machine wrote it: a notice, a newsletter, an invoice.
    Notice,
}

/// What became of a letter that was sent, as a server reports it (RFC 3464).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryReport {
    /// Of the letter that it is about, without angle brackets.
    pub message_id: Option<String>,
    pub recipient: String,
    /// To whom it was sent, where a server on the way passed it on.
    pub original: Option<String>,
    /// `failed`, `delayed`, `delivered`, `relayed`, `expanded`.
    pub action: String,
    /// Such as `5.1.1`.
    pub status: String,
    /// In the server's words, cut to 500 characters.
    pub diagnostic: Option<String>,
}

/// What a receiving server found out about who sent a letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProofResult {
    /// The domain of the one From address stands for it.
    Pass,
    /// It says that somebody else sent it.
    Fail,
    /// Nobody who is believed said anything.
    None,
}

/// How it found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proof {
    pub result: ProofResult,
    /// `dmarc`, `dkim`, `spf`, or `none`.
    pub method: &'static str,
}

/// One letter.
#[derive(Clone, PartialEq, Debug)]
pub struct ParsedMail {
    /// Without angle brackets. `None`: it has none that is one.
    pub message_id: Option<String>,
    /// The letters that it answers.
    pub in_reply_to: Vec<String>,
    /// The way from the thread's first letter to the one that it answers.
    pub references: Vec<String>,
    /// Decoded; empty if it has none.
    pub subject: String,
    /// Who says to have written it. Of several the first, and then nothing proves it.
    pub from: Mailbox,
    pub to: Vec<Mailbox>,
    pub cc: Vec<Mailbox>,
    /// As the sender's clock said; `None`: not a date.
    pub date: Option<Timestamp>,
    pub words: Words,
    pub files: Vec<Part>,
    /// Files that were not kept, not even by name.
    pub more_files: usize,
    /// Invitations to meetings and answers to them: method, summary, start, end, organizer, location as they stand in the
    /// calendar data. Others' words.
    pub invitations: Vec<Value>,
    pub automatic: Option<Automatic>,
    pub reports: Vec<DeliveryReport>,
    pub proof: Proof,
    /// A short name of the letter by its own content, the same however it came: for knowing it again.
    pub digest: String,
}

/// Why bytes are no letter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    #[error("it has no header that could be read")]
    NoHeader,
    #[error("it does not say whom it is from")]
    NoSender,
    #[error("it holds no words and no files")]
    Empty,
    #[error("reading it failed: {0}")]
    Broken(String),
}
