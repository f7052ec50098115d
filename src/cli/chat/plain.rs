//! The chat line by line: for scripts, and for terminals that can't do more.

use std::io::IsTerminal;

use super::Chat;
use super::follow::Follow;
use super::progress::Progress;
use super::slash::Said;
use crate::Outcome;
use crate::lines;
use crate::problem::{FAILED, Problem};
use crate::text::{block, one_line};
use inbox::News;

pub async fn run(mut chat: Chat) -> Outcome {
    let out = chat.caller.out.clone();
    let terminal = std::io::stdin().is_terminal();
    let mut lines = lines::typed();
    if terminal {
        chat.greet();
    }
    // What came while nobody was there.
    chat.notes.look(0).await;
    loop {
        if terminal {
            out.ask("> ");
        }
        let line = loop {
            tokio::select! {
                line = lines.recv() => break line,
                shown = chat.notes.next() => if shown && terminal {
                    out.ask("> ");
                },
                _ = tokio::signal::ctrl_c() => return Ok(chat.exit),
            }
        };
        let Some(line) = line else { return Ok(chat.exit) };
        let (_, text) = line.map_err(|e| Problem::usage(format!("What was typed can't be read: {e}."), ""))?;
        // A script's lines are messages, however they begin.
        let said = if terminal || text.trim().is_empty() { Said::of(&text) } else { Said::Message(text) };
        let text = match said {
            Said::Message(text) if terminal => text.trim().to_owned(),
            Said::Message(text) => text.trim_end().to_owned(),
            Said::Quit => return Ok(chat.exit),
            said => {
                let ask = async |question: &str| {
                    out.ask(&format!("{question} "));
                    let line = lines.recv().await?.ok();
                    line.map(|(_, answer)| answer.trim().to_lowercase())
                };
                chat.command(said, ask).await;
                continue;
            }
        };
        match say(chat.butler.is_some(), &mut chat, &text).await {
            Ok(true) => {}
            Ok(false) => chat.exit = FAILED,
            // The next one may be right.
            Err(problem) if terminal && problem.code == "invalid_envelope" => problem.tell(&out),
            Err(problem) => return Err(problem),
        }
    }
}

/// Says one thing and ends with it.
pub async fn once(mut chat: Chat, text: &str) -> Outcome {
    Ok(if say(true, &mut chat, text).await? { 0 } else { FAILED })
}

/// Says one thing and shows what becomes of it. `named`: whose it is need not be told.
async fn say(named: bool, chat: &mut Chat, text: &str) -> Result<bool, Problem> {
    let body = chat.message(text);
    let mut follow = Follow::new(chat.reach.clone());
    let mut progress = Progress::new(&chat.caller.out, named);
    let said = tokio::select! {
        said = follow.say(&body, |news| show(&mut progress, news)) => Some(said),
        _ = tokio::signal::ctrl_c() => None,
    };
    said.unwrap_or_else(|| Err(follow.left()))
}

/// Shows what becomes of one message.
fn show(progress: &mut Progress, news: &News) {
    if progress.out.json {
        // Each text comes whole as well.
        return if !matches!(news, News::TextDelta { .. }) {
            progress.out.record(news)
        };
    }
    match news {
        News::Accepted { request_id, .. } => progress.request = Some(*request_id),
        News::Routed { butler, .. } => progress.routed(butler),
        News::Text { butler, session_id, text, .. } => {
            progress.release(Some(*session_id));
            progress.held.insert(*session_id, (butler.clone(), text.clone()));
        }
        News::Stage { stage, by, text, .. } => progress.stage(stage, by.as_deref(), text),
        News::ToolCall { session_id, name, arguments, .. } => {
            progress.release(Some(*session_id));
            progress.called(name, arguments);
        }
        News::ToolResult { is_error: true, name, content, .. } => progress.call_failed(name, content),
        News::Waiting { butler, why, .. } => progress.waits(butler.as_deref(), why),
        News::Reply { butler, kind, message, emoji, .. } => {
            let said = message.as_deref().or(emoji.as_deref()).unwrap_or_default();
            let tone = progress.replied(butler, kind, said);
            let who = progress.out.paint(tone, &format!("{}:", one_line(butler, 40)));
            progress.out.line(&format!("{who} {}", block(said)));
        }
        News::Ended { state, error } => progress.ended(state, error.as_deref()),
        _ => {}
    }
}
