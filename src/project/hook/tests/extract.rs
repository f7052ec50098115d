//! What is taken from transcripts, and what is not.

use crate::hook::extract::{Found, memories};
use crate::hook::transcript;
use crate::record::ExperienceType::{self, Decision, Learning};

const DECISION: &str = include_str!("decision.jsonl");
const FIX: &str = include_str!("fix.jsonl");
const NOISE: &str = include_str!("noise.jsonl");
const INJECTED: &str = include_str!("injected.jsonl");
const UNICODE: &str = include_str!("unicode.jsonl");
const REPORT: &str = include_str!("report.jsonl");
const OTHERS: &str = include_str!("others.jsonl");
const BROKEN: &str = include_str!("broken.jsonl");
const HOSTILE: &str = include_str!("hostile.jsonl");

fn of(transcript: &str) -> Vec<Found> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("a.jsonl");
    std::fs::write(&path, transcript).unwrap();
    let excerpt = transcript::read(&path, 0).unwrap();
    let known: Vec<&str> = excerpt.known.iter().map(String::as_str).collect();
    memories(&excerpt.texts, &known)
}

fn shown(found: &[Found]) -> Vec<(ExperienceType, &str)> {
    found.iter().map(|found| (found.kind, found.content.as_str())).collect()
}

#[test]
fn a_decision_is_found_among_talk_code_and_tables() {
    let want = "We decided to keep jobs in PostgreSQL instead of Redis because a job and its audit row must commit in one \
                transaction.";
    assert_eq!(shown(&of(DECISION)), [(Decision, want)]);
}

#[test]
fn causes_and_fixes_are_found_and_guesses_are_not() {
    let cause = "Root cause: `sync_channel(16)` in the importer blocks the reader thread as soon as a file has more than 16 \
                 broken rows, since errors are only drained after the join. Fixed by draining errors in a thread of their own \
                 before the join.";
    let pitfall = "It turns out that `cargo test` captures the output of spawned threads only when they are joined, so a \
                   hanging thread shows nothing.";
    assert_eq!(shown(&of(FIX)), [(Learning, cause), (Learning, pitfall)]);
}

#[test]
fn talk_is_no_memory() {
    assert_eq!(shown(&of(NOISE)), []);
}

#[test]
fn what_came_from_memory_is_not_stored_again() {
    let news = "The real cause of the slow start was that `load_prices` parsed the whole price list for every tenant.";
    assert_eq!(shown(&of(INJECTED)), [(Learning, news)]);
}

#[test]
fn characters_of_all_kinds_are_read() {
    let found = of(UNICODE);
    let texts: Vec<&str> = found.iter().map(|found| found.content.as_str()).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("“naïve” and 日本語 were cut"), "{texts:?}");
    assert!(texts[1].ends_with("half of a character: \u{fffd}"), "{texts:?}");
}

#[test]
fn a_report_gives_its_findings_one_by_one() {
    let found = of(REPORT);
    assert_eq!(found.len(), 8, "{:#?}", shown(&found));
    assert_eq!(found.iter().filter(|found| found.kind == Decision).count(), 2);
    let mut best = found.clone();
    crate::hook::extract::best(&mut best, 5);
    let texts: Vec<&str> = best.iter().map(|found| found.content.as_str()).collect();
    assert!(texts.iter().any(|text| text.contains("`deadpool`")) && texts[0].contains("`pool.get`"), "{texts:#?}");
    assert!(!texts.iter().any(|text| text.starts_with("Keep in mind")), "{texts:#?}");
}

#[test]
fn only_the_assistants_own_words_count() {
    let own = "The root cause was that `own.rs` opened the file twice, because the guard was dropped at the end of the \
               statement.";
    assert_eq!(shown(&of(OTHERS)), [(Learning, own)]);
}

#[test]
fn broken_lines_are_passed_over() {
    let want = "The problem was that `broken.jsonl` had lines which no parser reads, because the disk was full while they \
                were written.";
    assert_eq!(shown(&of(BROKEN)), [(Learning, want)]);
}

#[test]
fn orders_secrets_and_rubbish_are_no_memories() {
    assert_eq!(shown(&of(HOSTILE)), []);
}

/// Sentences of which it is plain what they are worth.
#[test]
fn sentences_are_told_apart() {
    let worth = [
        (Decision, "We chose `jiff` over chrono because its time zones are sound."),
        (Decision, "We will use SKIP LOCKED instead of advisory locks so that a dead worker frees its row."),
        (Decision, "Instead of retrying in the client, we let the outbox of `delivery.rs` do it."),
        (Decision, "Decision: the API keeps numeric ids, because the mobile app of 2024 stores them."),
        (Decision, "I went with a trigram index rather than full text search because names are short."),
        (Learning, "The flakiness came from two tests that shared the port 8080 of the fixture."),
        (Learning, "The issue was that `Drop` ran before the response was flushed."),
        (Learning, "`vacuum` never runs on this table because a replication slot holds its horizon back."),
        (
            Learning,
            "Requests to the importer must carry a tenant, otherwise row-level security hides all rows from it.",
        ),
        (Learning, "Turned out the CDN strips the ETag header from compressed answers."),
    ];
    for (kind, text) in worth {
        assert_eq!(shown(&memories(&[text.to_owned()], &[])), [(kind, text)], "{text}");
    }
    let worthless = [
        "We decided to go on.",
        "We chose this because it is better.",
        "We use tabs.",
        "It was the root cause because of that.",
        "This was the root cause of the whole problem with the importer's channel.",
        "The root cause might be the `sync_channel` in the importer, because it is bounded.",
        "I'll use `jiff` because its time zones are sound.",
        "Let me fix the root cause: the bounded `sync_channel` in the importer.",
        "We should use `jiff` instead of chrono because its time zones are sound.",
        "Did we decide to use `jiff` instead of chrono because its time zones are sound?",
        "The root cause was the following: `a.rs`, `b.rs` and `c.rs` disagree about it:",
        "You must run `just checksums` because I changed a migration.",
        "We currently use `jiff` instead of chrono because its time zones are sound.",
        "According to the project memory, we chose `jiff` because its time zones are sound.",
    ];
    for text in worthless {
        assert_eq!(shown(&memories(&[text.to_owned()], &[])), [], "{text}");
    }
}

#[test]
fn lengths_are_counted_in_characters() {
    let of_length = |length: usize| {
        let start = "The root cause was that `größe.rs` cut ";
        let text = format!(
            "{start}{}.",
            "日 ".repeat(length).chars().take(length - start.chars().count() - 1).collect::<String>()
        );
        (text.chars().count(), memories(&[text], &[]).len())
    };
    assert_eq!(of_length(60), (60, 1));
    assert_eq!(of_length(599).1, 1);
    assert_eq!(of_length(620).1, 0);
    assert_eq!(memories(&["The root cause was `größe`.".to_owned()], &[]), []);
}
