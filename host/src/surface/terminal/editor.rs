//! The line editor of the terminal, and the output above its line.
//!
//! One thread reads lines, another one prints. Both end with the process, which restores the terminal settings. If
//! input or output is not a terminal, lines are read and written without editing.

use std::borrow::Cow;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, ColorMode, CompletionType, ConditionalEventHandler, Config, Context, Event, EventContext, EventHandler,
    ExternalPrinter, Helper, KeyCode, KeyEvent, Modifiers, RepeatCount,
};
use tokio::sync::{mpsc, oneshot};

use super::history::{ENTRIES_MAX, History};
use super::orders;

/// Lines that may wait to be read by the conversation.
const TYPED_MAX: usize = 16;

/// Texts that may wait to be printed.
const PRINTED_MAX: usize = 64;

/// The wait for the repaint of the line below a text, before the next text is printed.
const PAINT_WAIT: Duration = Duration::from_millis(100);

/// Columns if the terminal does not report its width.
const WIDTH: usize = 80;

/// One line up and down again: it only repaints the prompt.
const PAINT_ANEW: &str = "\x1b[A\n";

/// The indicator of a working agent at the beginning of the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sign {
    /// Dots.
    #[default]
    Dots,
    /// An arrow.
    Arrow,
    /// No indicator.
    None,
}

impl Sign {
    /// Returns the indicator of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "dots" => Some(Self::Dots),
            "arrow" => Some(Self::Arrow),
            "none" => Some(Self::None),
            _ => None,
        }
    }

    fn prompt(self, busy: bool) -> &'static str {
        match self {
            Self::Dots if busy => "… ",
            Self::Arrow if busy => "» ",
            _ => IDLE,
        }
    }
}

/// The prompt while the agent is idle.
const IDLE: &str = "> ";

/// An input of the user.
#[derive(Debug, PartialEq, Eq)]
pub enum Key {
    /// A complete line. The next one is read after [`Editor::go_on`].
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the end of the input.
    End,
}

/// The input and output of the terminal.
pub struct Editor {
    keys: mpsc::Receiver<Key>,
    print: mpsc::Sender<Print>,
    go_on: std::sync::mpsc::SyncSender<()>,
    shared: Arc<Shared>,
    /// The original terminal settings. `None`: input or output is not a terminal.
    found: Option<Termios>,
}

enum Print {
    Text(String),
    Flush(oneshot::Sender<()>),
}

/// The state that the threads share.
#[derive(Default)]
struct Shared {
    busy: AtomicBool,
    sign: AtomicU8,
    /// `true` while a line is being read.
    reading: AtomicBool,
    painted: Mutex<u64>,
    paints: Condvar,
    /// Instances to which a conversation can be handed off, for completion.
    instances: Vec<String>,
    /// The ids of the last `/agents` list, for completion.
    agents: Mutex<Vec<String>>,
}

impl Shared {
    fn sign(&self) -> Sign {
        match self.sign.load(Ordering::Relaxed) {
            0 => Sign::Dots,
            1 => Sign::Arrow,
            _ => Sign::None,
        }
    }

    fn paint(&self) {
        *self.painted.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.paints.notify_all();
    }

    fn painted(&self) -> u64 {
        *self.painted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the line was repainted since `before`.
    fn wait_for_paint(&self, before: u64) {
        let painted = self.painted.lock().unwrap_or_else(PoisonError::into_inner);
        // The next text is printed even if the repaint is late.
        let _ = self.paints.wait_timeout_while(painted, PAINT_WAIT, |painted| *painted == before);
    }
}

impl Editor {
    /// Sets the ids that complete `/agents stop`.
    pub fn lists(&self, agents: Vec<String>) {
        *self.shared.agents.lock().unwrap_or_else(PoisonError::into_inner) = agents;
    }

    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// The terminal or the system refuses.
    pub fn start(home: &Path, instances: &[String]) -> io::Result<Self> {
        let (tell, keys) = mpsc::channel(TYPED_MAX);
        let (print, texts) = mpsc::channel(PRINTED_MAX);
        let (go_on, may_go_on) = std::sync::mpsc::sync_channel(1);
        let shared = Arc::new(Shared { instances: instances.to_vec(), ..Shared::default() });
        let stdin = io::stdin();
        let is_screen = stdin.is_terminal() && io::stdout().is_terminal();
        let found = if is_screen { tcgetattr(&stdin).ok() } else { None };
        // A terminal without line editing is used like a pipe.
        let line = found.as_ref().and_then(|_| Line::new(home, &tell, &shared).ok());
        let found = found.filter(|_| line.is_some());
        match line {
            Some((line, printer)) => {
                let state = Arc::clone(&shared);
                thread("chat-line", move || line.read_all(&tell, &may_go_on, &state))?;
                let state = Arc::clone(&shared);
                thread("chat-screen", move || print_above(texts, printer, &state))?;
            }
            None => {
                thread("chat-line", move || read_plainly(&tell, &may_go_on))?;
                thread("chat-screen", move || print_plainly(texts))?;
            }
        }
        Ok(Self { keys, print, go_on, shared, found })
    }

    /// Returns `true` if lines are edited: input and output are terminals.
    pub fn is_screen(&self) -> bool {
        self.found.is_some()
    }

    /// Returns the columns of the terminal.
    pub fn width(&self) -> usize {
        let columns = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
        if columns == 0 { WIDTH } else { columns }
    }

    /// Waits for the next input of the user. Cancel-safe.
    pub async fn next(&mut self) -> Key {
        self.keys.recv().await.unwrap_or(Key::End)
    }

    /// Allows the next line to be read.
    pub fn go_on(&self) {
        // An earlier permission that is still waiting is enough.
        let _ = self.go_on.try_send(());
    }

    /// Prints whole lines above the edited line.
    pub async fn print(&self, text: String) {
        if !text.is_empty() {
            // If the thread is gone, nothing can be shown.
            let _ = self.print.send(Print::Text(text)).await;
        }
    }

    /// Shows or hides the indicator of a working agent.
    pub async fn set_busy(&self, busy: bool) {
        if self.shared.busy.swap(busy, Ordering::Relaxed) != busy {
            self.paint().await;
        }
    }

    /// Selects the indicator.
    pub async fn set_sign(&self, sign: Sign) {
        self.shared.sign.store(sign as u8, Ordering::Relaxed);
        self.paint().await;
    }

    async fn paint(&self) {
        if self.is_screen() && self.shared.reading.load(Ordering::Relaxed) {
            self.print(PAINT_ANEW.to_owned()).await;
        }
    }

    /// Prints the waiting texts and restores the terminal.
    pub async fn end(self) {
        let (flushed, is_flushed) = oneshot::channel();
        if self.print.send(Print::Flush(flushed)).await.is_ok() {
            // If the printer is gone, there is nothing left to print.
            let _ = is_flushed.await;
        }
        let Some(found) = &self.found else { return };
        // Clears the unfinished line and switches bracketed paste off.
        let _ = io::stdout().write_all(b"\r\x1b[J\x1b[?2004l").and_then(|()| io::stdout().flush());
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, found);
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// A line editor on the terminal.
struct Line {
    editor: rustyline::Editor<Words, MemHistory>,
    history: History,
}

impl Line {
    fn new(
        home: &Path,
        tell: &mpsc::Sender<Key>,
        shared: &Arc<Shared>,
    ) -> rustyline::Result<(Self, impl ExternalPrinter + Send + use<>)> {
        let config = Config::builder()
            .max_history_size(ENTRIES_MAX)?
            .completion_type(CompletionType::List)
            .auto_add_history(false)
            // Forced, because the highlighter also changes the prompt with the state of the agent, without colours.
            .color_mode(ColorMode::Forced)
            .bracketed_paste(true)
            .build();
        let history = MemHistory::with_config(&config);
        let mut editor = rustyline::Editor::with_history(config, history)?;
        editor.set_helper(Some(Words { shared: Arc::clone(shared) }));
        let interrupt = OnInterrupt { tell: tell.clone(), shared: Arc::clone(shared) };
        editor.bind_sequence(KeyEvent::ctrl('C'), EventHandler::Conditional(Box::new(interrupt)));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), EventHandler::Simple(Cmd::Newline));
        let (history, entries) = History::open(home);
        for entry in entries {
            editor.add_history_entry(entry)?;
        }
        let printer = editor.create_external_printer()?;
        Ok((Self { editor, history }, printer))
    }

    fn read_all(mut self, tell: &mpsc::Sender<Key>, may_go_on: &std::sync::mpsc::Receiver<()>, shared: &Shared) {
        loop {
            shared.reading.store(true, Ordering::Relaxed);
            let read = self.editor.readline(IDLE);
            shared.reading.store(false, Ordering::Relaxed);
            let key = match read {
                Ok(line) => {
                    if self.history.add(&line) {
                        // A line that cannot be kept is only missing in the history.
                        let _ = self.editor.add_history_entry(line.as_str());
                    }
                    Key::Line(line)
                }
                // The line was cancelled; the next one is read.
                Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => continue,
                Err(_) => Key::End,
            };
            let is_end = key == Key::End;
            if tell.blocking_send(key).is_err() || is_end || may_go_on.recv().is_err() {
                return;
            }
        }
    }
}

/// Ctrl-C: clears a line that was begun. Otherwise the conversation decides.
struct OnInterrupt {
    tell: mpsc::Sender<Key>,
    shared: Arc<Shared>,
}

impl ConditionalEventHandler for OnInterrupt {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        if !self.shared.busy.load(Ordering::Relaxed) && !context.line().is_empty() {
            return Some(Cmd::Interrupt);
        }
        // A full queue contains enough interrupts.
        let _ = self.tell.try_send(Key::Interrupt);
        Some(Cmd::Noop)
    }
}

/// The editor's helper: completion, continuation and prompt.
struct Words {
    shared: Arc<Shared>,
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let agents = self.shared.agents.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(orders::completions(line.get(..at).unwrap_or(line), &self.shared.instances, &agents))
    }
}

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let goes_on = orders::goes_on(context.input());
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Highlighter for Words {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, default: bool) -> Cow<'b, str> {
        self.shared.paint();
        if !default {
            return Cow::Borrowed(prompt);
        }
        Cow::Borrowed(self.shared.sign().prompt(self.shared.busy.load(Ordering::Relaxed)))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Helper for Words {}

/// Prints above the line. Texts keep their order: the next one waits until the line is repainted below the last one.
fn print_above(mut texts: mpsc::Receiver<Print>, mut printer: impl ExternalPrinter, shared: &Shared) {
    while let Some(print) = texts.blocking_recv() {
        match print {
            Print::Text(text) => {
                let before = shared.painted();
                if printer.print(text).is_err() {
                    return;
                }
                if shared.reading.load(Ordering::Relaxed) {
                    shared.wait_for_paint(before);
                }
            }
            // The caller may have stopped waiting.
            Print::Flush(done) => drop(done.send(())),
        }
    }
}

fn print_plainly(mut texts: mpsc::Receiver<Print>) {
    while let Some(print) = texts.blocking_recv() {
        match print {
            Print::Text(text) => {
                let mut out = io::stdout().lock();
                if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
                    return;
                }
            }
            // The same as above.
            Print::Flush(done) => drop(done.send(())),
        }
    }
}

fn read_plainly(tell: &mpsc::Sender<Key>, may_go_on: &std::sync::mpsc::Receiver<()>) {
    let mut whole = String::new();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        whole.push_str(&line);
        if orders::goes_on(&whole) {
            whole.push('\n');
            continue;
        }
        if tell.blocking_send(Key::Line(std::mem::take(&mut whole))).is_err() || may_go_on.recv().is_err() {
            return;
        }
    }
    // The conversation may have ended.
    let _ = tell.blocking_send(Key::End);
}
