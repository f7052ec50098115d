//! The chat at a terminal: a line is edited, commands are done, and what waits for its answer does not keep the next
//! message from being typed.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::interval;

use super::attach::Attachment;
use super::editor::{LineEditor, Typed};
use super::follow::Follow;
use super::live::{Live, Stage};
use super::progress::Progress;
use super::slash::Said;
use super::{Chat, ChatArgs, history};
use crate::problem::{FAILED, Problem};
use crate::screen::Screen;
use crate::text::count;
use crate::{Caller, Outcome};

/// Between two pictures of the sign that something goes on.
const TURN: Duration = Duration::from_millis(100);
/// After so long without anything happening a message stands behind another one.
const BEHIND: Duration = Duration::from_secs(3);

/// A message on its way to its end.
type Pending = Pin<Box<dyn Future<Output = Result<bool, Problem>>>>;

/// A conversation at a terminal.
struct Terminal {
    chat: Chat,
    screen: Screen,
    /// Messages that nobody waits for.
    aside: FuturesUnordered<Pending>,
    /// The terminal goes away, or the process is to end.
    gone: [Signal; 2],
}

pub async fn run(mut caller: Caller, args: ChatArgs, attached: Vec<Attachment>) -> Outcome {
    let gone = [SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let [Ok(terminate), Ok(hangup)] = gone else {
        return Err(Problem::new(FAILED, "signals", "The process can't hear signals.", ""));
    };
    let (mut editor, screen) = LineEditor::start(history::file(&caller.config.daemon.data_dir))?;
    caller.out.screen = Some(screen.clone());
    let mut chat = Chat::new(caller, args, attached);
    chat.greet();
    chat.tell_attached(0);
    // What came while nobody was there.
    chat.notes.look(0).await;
    let mut terminal = Terminal { chat, screen, aside: FuturesUnordered::new(), gone: [terminate, hangup] };
    while let Some(text) = terminal.typed(&mut editor).await {
        if !terminal.take(&text, &mut editor).await {
            break;
        }
    }
    let Terminal { chat, aside, .. } = &terminal;
    if !aside.is_empty() {
        let what = count(aside.len(), "message");
        chat.say(&format!("The household works on {what} all the same. See: butlerd inbox list"));
    }
    Ok(chat.exit)
}

impl Terminal {
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
                _ = self.chat.notes.next() => continue,
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
            Said::Message(text) => return self.send(&text).await,
            Said::Quit => return false,
            said => self.chat.command(said, async |question: &str| editor.answer(question).await).await,
        }
        true
    }

    /// Sends a message and waits for its end, or until it is clear that this takes a while. `false`: the terminal is
    /// gone.
    async fn send(&mut self, text: &str) -> bool {
        let body = self.chat.message(text.trim_start());
        let stage = Rc::new(Stage::default());
        let progress = Progress::new(&self.chat.caller.out, self.chat.butler.is_some());
        let mut live = Live::new(progress, &self.screen, &stage);
        let mut follow = Follow::new(self.chat.reach.clone());
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
                    self.chat.say("The household works on it all the same; its answer is shown here. Ctrl-D ends the chat.");
                    return true;
                }
                Some(done) = self.aside.next() => done,
                _ = turn.tick() => {
                    self.screen.turn();
                    if !self.aside.is_empty() && !stage.has_begun() && sent.elapsed() > BEHIND {
                        stage.set_aside();
                        self.aside.push(message);
                        self.chat.say("It waits behind the message before it; its answer is shown here.");
                        return true;
                    }
                    continue;
                }
                _ = self.chat.notes.next() => continue,
                _ = terminate.recv() => return false,
                _ = hangup.recv() => return false,
            };
            self.note_end(done);
        }
    }

    fn note_end(&mut self, done: Result<bool, Problem>) {
        match done {
            Ok(true) => {}
            Ok(false) => self.chat.exit = FAILED,
            Err(problem) => {
                self.chat.exit = problem.exit;
                problem.tell(&self.chat.caller.out);
            }
        }
    }
}
