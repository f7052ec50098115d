//! The chat at a terminal: a line is edited, commands are done, and what waits for its answer does not keep the next
//! message from being typed.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::interval;
use uuid::Uuid;

use super::attach::{self, Attachment};
use super::editor::{LineEditor, Typed};
use super::follow::Follow;
use super::live::{Live, Stage};
use super::notes::ChatNotes;
use super::slash::{COMMANDS, EDITOR, NAMES, Said};
use super::{ChatArgs, history, message};
use crate::out::Tone;
use crate::problem::{FAILED, Problem};
use crate::reach::Reach;
use crate::screen::Screen;
use crate::text::{count, one_line};
use crate::{Caller, Outcome, approvals};

/// Between two pictures of the sign that something goes on.
const TURN: Duration = Duration::from_millis(100);
/// After so long without anything happening a message stands behind another one.
const BEHIND: Duration = Duration::from_secs(3);

/// A message on its way to its end.
type Pending = Pin<Box<dyn Future<Output = Result<bool, Problem>>>>;

/// A conversation at a terminal.
struct Chat {
    caller: Caller,
    screen: Screen,
    reach: Reach,
    notes: ChatNotes,
    butler: Option<String>,
    thread: String,
    /// What goes with the next message.
    attached: Vec<Attachment>,
    /// Messages that nobody waits for.
    aside: FuturesUnordered<Pending>,
    /// The terminal goes away, or the process is to end.
    gone: [Signal; 2],
    exit: i32,
}

pub async fn run(caller: Caller, args: ChatArgs, attached: Vec<Attachment>) -> Outcome {
    let gone = [SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let [Ok(terminate), Ok(hangup)] = gone else {
        return Err(Problem::new(FAILED, "signals", "The process can't hear signals.", ""));
    };
    let (mut editor, screen) = LineEditor::start(history::file(&caller.config.daemon.data_dir))?;
    let mut caller = caller;
    caller.out.screen = Some(screen.clone());
    let (reach, notes) = (Reach::new(&caller), ChatNotes::new(&caller));
    let who = one_line(args.butler.as_deref().unwrap_or("the household"), 40);
    let hello = format!("You talk to {who}. /help lists what you can do here; Ctrl-D ends it.");
    caller.out.toned(Tone::Faint, &hello);
    let ChatArgs { butler, thread, .. } = args;
    let (aside, gone) = (FuturesUnordered::new(), [terminate, hangup]);
    let mut chat = Chat { caller, screen, reach, notes, butler, thread, attached, aside, gone, exit: 0 };
    chat.attached.iter().for_each(|file| chat.waits_for_a_message(file));
    // What came while nobody was there.
    chat.notes.look(0).await;
    while let Some(text) = chat.typed(&mut editor).await {
        if !chat.take(&text, &mut editor).await {
            break;
        }
    }
    if !chat.aside.is_empty() {
        let what = count(chat.aside.len(), "message");
        chat.say(&format!("The household works on {what} all the same. See: butlerd inbox list"));
    }
    Ok(chat.exit)
}

impl Chat {
    /// The next line, and meanwhile whatever comes. `None`: the conversation is over.
    async fn typed(&mut self, editor: &mut LineEditor) -> Option<String> {
        loop {
            let [terminate, hangup] = &mut self.gone;
            let done = tokio::select! {
                typed = editor.line() => match typed {
                    Typed::Text(text) => return Some(text),
                    Typed::Cleared => continue,
                    Typed::Ended => return None,
                },
                _ = self.notes.next() => continue,
                Some(done) = self.aside.next() => done,
                _ = terminate.recv() => return None,
                _ = hangup.recv() => return None,
            };
            self.note_end(done);
        }
    }

    /// Does what was typed. `false`: the conversation is over.
    async fn take(&mut self, text: &str, editor: &mut LineEditor) -> bool {
        match Said::of(text) {
            Said::Nothing => {}
            Said::Message(text) => return self.send(&text).await,
            Said::Quit => return false,
            Said::Help => {
                self.caller.out.line(COMMANDS);
                self.caller.out.line(EDITOR);
            }
            Said::New => {
                self.thread = Uuid::now_v7().to_string();
                self.say("A new conversation: nothing of what was said before is told to anybody who answers in it.");
            }
            Said::File(file) => {
                let question = format!("Attach {}? [Y/n]", one_line(&file.display().to_string(), 200));
                if editor.answer(&question).await.is_some_and(|answer| ["", "y", "yes"].contains(&answer.as_str())) {
                    self.attach(&file);
                }
            }
            Said::Attach(Some(file)) => self.attach(&file),
            Said::Attach(None) if self.attached.is_empty() => {
                self.say("No file waits for your next message. /attach FILE")
            }
            Said::Attach(None) => self.attached.iter().for_each(|file| self.waits_for_a_message(file)),
            Said::Approve(id) => {
                let ask = async |question: &str| editor.answer(question).await;
                if let Err(problem) = approvals::in_turn(&self.caller, id.as_ref(), ask).await {
                    problem.tell(&self.caller.out);
                }
            }
            Said::Wrong(why) => self.say(&format!("{why} Commands: {}", NAMES.join(", "))),
        }
        true
    }

    fn attach(&mut self, file: &Path) {
        match attach::read(file, &self.attached, self.caller.config.admin.max_body.0) {
            Ok(file) => {
                self.waits_for_a_message(&file);
                self.attached.push(file);
            }
            Err(problem) => problem.tell(&self.caller.out),
        }
    }

    fn waits_for_a_message(&self, file: &Attachment) {
        self.say(&format!("{} goes with your next message.", file.shown()));
    }

    /// Sends a message and waits for its end, or until it is clear that this takes a while. `false`: the terminal is gone.
    async fn send(&mut self, text: &str) -> bool {
        let attached = std::mem::take(&mut self.attached);
        let body = message(text.trim_start(), self.butler.as_deref(), &self.thread, &attached);
        let stage = Rc::new(Stage::default());
        let mut live = Live::new(&self.caller.out, &self.screen, &stage, self.butler.is_some());
        let mut follow = Follow::new(self.reach.clone());
        let mut message: Pending = Box::pin(async move { follow.say(&body, |news| live.show(news)).await });
        let (mut turn, sent) = (interval(TURN), Instant::now());
        self.screen.status("sending");
        loop {
            let [terminate, hangup] = &mut self.gone;
            let done = tokio::select! {
                done = &mut message => {
                    self.note_end(done);
                    return true;
                }
                () = stage.waits.notified() => {
                    stage.set_aside();
                    self.aside.push(message);
                    return true;
                }
                _ = tokio::signal::ctrl_c() => {
                    stage.set_aside();
                    self.aside.push(message);
                    self.say("The household works on it all the same; its answer is shown here. Ctrl-D ends the chat.");
                    return true;
                }
                Some(done) = self.aside.next() => done,
                _ = turn.tick() => {
                    self.screen.turn();
                    if !self.aside.is_empty() && !stage.has_begun() && sent.elapsed() > BEHIND {
                        stage.set_aside();
                        self.aside.push(message);
                        self.say("It waits behind the message before it; its answer is shown here.");
                        return true;
                    }
                    continue;
                }
                _ = self.notes.next() => continue,
                _ = terminate.recv() => return false,
                _ = hangup.recv() => return false,
            };
            self.note_end(done);
        }
    }

    fn note_end(&mut self, done: Result<bool, Problem>) {
        match done {
            Ok(true) => {}
            Ok(false) => self.exit = FAILED,
            Err(problem) => {
                self.exit = problem.exit;
                problem.tell(&self.caller.out);
            }
        }
    }

    fn say(&self, text: &str) {
        self.caller.out.toned(Tone::Faint, text);
    }
}
