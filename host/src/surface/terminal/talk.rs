//! The conversation: typed lines are sent, and the host's output is shown.

use std::path::PathBuf;
use std::time::Duration;

use hermes_protocol::{Chat, Choices, Emitted, Event, Outgoing, Purpose, TurnEvent};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::editor::{Editor, Key, Sign};
use super::markdown::Look;
use super::orders::{self, Typed};
use super::screen::Screen;
use super::wire::{Asking, News, Wire};
use super::{ChatError, Options, Speaker};
use crate::engine::dispatcher::commands::agents::names_in;
use crate::engine::operator::{ControlReply, ControlRequest};
use crate::surface::control::{Client, ClientError};
use crate::surface::terminal::backlog;
use crate::surface::terminal::backlog::SaidHere;
use crate::surface::terminal::embedded_host::{Hosts, Next};
use crate::surface::terminal::unsent::{Fate, NotTaken, Unheard};
use hermes_core::text::sentence;
use hermes_loader::terminal::Leaving;

/// A second Ctrl-C within this time leaves.
const AGAIN_WITHIN: Duration = Duration::from_secs(2);

/// The wait for the host's answer about the current session when the terminal leaves.
const SESSION_WAIT: Duration = Duration::from_secs(2);

/// Sessions that are searched for the current one.
const SESSIONS: u32 = 20;

/// The wait for the end of a handoff, in milliseconds.
const HANDOFF_WAIT_MS: u64 = 60_000;

/// The time for a refusal of a handoff before it is reported as in progress.
const REFUSED_WITHIN: Duration = Duration::from_millis(400);

/// Clears a terminal.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Runs the conversation until the user leaves or no host is left.
pub async fn talk(hosts: &mut Hosts, speaker: &mut Speaker, options: Options) -> Result<(), ChatError> {
    let wire = hosts.seat(options.resume, false).await?;
    let editor = Editor::start(hosts.home(), &wire.info.instances)
        .map_err(|error| ChatError::System(format!("the terminal cannot be opened ({error})")))?;
    let look = Look {
        styled: editor.is_screen() && options.colours,
        width: if editor.is_screen() { editor.width() } else { 0 },
    };
    let (find, found) = mpsc::channel(1);
    let mut talk = Talk {
        hosts,
        speaker,
        wire,
        editor,
        screen: Screen::new(look),
        over: None,
        find,
        found,
        session: None,
        ask: None,
        unheard: Unheard::new(),
        said_here: SaidHere::default(),
        pressed: None,
        way_back_told: false,
    };
    talk.greet();
    let ended = talk.run().await;
    let session = if talk.way_back_told { None } else { talk.which_session().await };
    talk.show().await;
    let Talk { editor, wire, .. } = talk;
    wire.leave().await;
    editor.end().await;
    if let Some(session) = session {
        println!("To resume: hermes-host chat --resume {session}");
    }
    ended
}

/// One conversation in one terminal.
struct Talk<'a> {
    hosts: &'a mut Hosts,
    speaker: &'a mut Speaker,
    wire: Wire,
    editor: Editor,
    screen: Screen,
    /// The reason of the host's end, if it arrived during another wait.
    over: Option<Option<Leaving>>,
    find: mpsc::Sender<String>,
    /// The results of queries for the current session.
    found: mpsc::Receiver<String>,
    /// The session that the host reported last.
    session: Option<String>,
    /// The open question.
    ask: Option<Choices>,
    /// The messages that no host has accepted.
    unheard: Unheard,
    /// The accepted messages of this terminal.
    said_here: SaidHere,
    /// Time of the last Ctrl-C.
    pressed: Option<Instant>,
    /// `true` if the command to return was shown.
    way_back_told: bool,
}

/// Decides if the conversation continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Go,
    Leave,
}

impl Talk<'_> {
    async fn run(&mut self) -> Result<(), ChatError> {
        loop {
            self.show().await;
            if let Some(why) = self.over.take() {
                if self.find_another(why).await? == Then::Leave {
                    return Ok(());
                }
                continue;
            }
            let then = tokio::select! {
                news = self.wire.next() => match news {
                    News::Over(why) => self.find_another(why).await?,
                    news => self.heard(news).await,
                },
                key = self.editor.next() => self.key(key).await,
                Some(not_taken) = self.unheard.next() => self.not_taken(not_taken),
                Some(session) = self.found.recv() => self.is_in(session),
                () = self.speaker.interrupted() => Then::Leave,
            };
            if then == Then::Leave {
                return Ok(());
            }
        }
    }

    /// Prints the waiting lines of the screen.
    async fn show(&mut self) {
        if self.editor.is_screen() {
            self.screen.set_width(self.editor.width());
        }
        self.editor.print(self.screen.take()).await;
        self.editor.set_busy(self.screen.running().is_some()).await;
    }

    fn greet(&mut self) {
        let info = self.wire.info.clone();
        match &info.session {
            Some(session) => {
                self.session = Some(session.id.clone());
                for message in &info.last {
                    if matches!(message.role.as_str(), "user" | "assistant") && !message.content.is_empty() {
                        self.screen.before(&message.role, &message.content);
                    }
                }
                let title = session.title.as_deref().map(|title| format!(" ({title})")).unwrap_or_default();
                self.screen.note(&format!("Resumed session {}{title}.", session.id));
            }
            None => self.screen.note("New conversation. /help lists the commands, /quit exits."),
        }
        if !info.elsewhere.is_empty() {
            let words = format!(
                "This conversation is also open in {}, and messages there belong to it; /return in that chat moves it \
                 to the terminal only.",
                info.elsewhere.join(", ")
            );
            self.screen.note(&words);
        }
        if info.alone {
            self.screen.note(match self.hosts.runs_one() {
                true => "No host is running, so this terminal runs one without adapters until you exit.",
                false => {
                    "Another terminal runs the host, without adapters; when that terminal exits, this one takes over."
                }
            });
        }
    }

    async fn heard(&mut self, news: News) -> Then {
        match news {
            News::Delivery(number, message) => {
                if message.part <= 1 && !self.said_here.is_answered_by(&message) {
                    self.mark_former(&message).await;
                }
                if message.purpose == Purpose::Ask {
                    self.ask.clone_from(&message.choices);
                }
                let listed = names_in(&message.text);
                if !listed.is_empty() {
                    self.editor.lists(listed);
                }
                self.screen.delivered(&message);
                self.wire.shown(number, self.speaker.now_ms());
            }
            News::Turn(number, call) => {
                if let TurnEvent::Metadata { session_id, .. } = &call.event
                    && self.session.as_ref() != Some(session_id)
                {
                    self.find_out();
                }
                if call.event.is_last() {
                    self.ask = None;
                }
                self.screen.turn_event(call.inbox_id, call.seq, &call.event);
                self.wire.seen(number);
            }
            News::Over(_) => {}
        }
        Then::Go
    }

    /// Shows the conversation of a delivery if it is another one.
    async fn mark_former(&mut self, message: &Outgoing) {
        let here = self.which_session().await;
        let marked = backlog::mark(self.hosts.home(), &self.wire, message, here.as_deref());
        // The note is optional: without an answer the delivery is shown alone.
        if let Ok(Some(words)) = tokio::time::timeout(SESSION_WAIT, marked).await {
            self.screen.note(&words);
        }
    }

    async fn key(&mut self, key: Key) -> Then {
        match key {
            Key::End => return Then::Leave,
            Key::Interrupt => return self.interrupt().await,
            Key::Line(line) => {
                let then = self.line(&line).await;
                if then == Then::Leave {
                    return then;
                }
            }
        }
        self.editor.go_on();
        Then::Go
    }

    async fn line(&mut self, line: &str) -> Then {
        self.pressed = None;
        match orders::read(line, self.ask.as_ref()) {
            Typed::Nothing => {}
            Typed::Quit => return Then::Leave,
            Typed::Handoff(instance) => return self.hand_off(instance).await,
            Typed::Redraw => self.editor.print(CLEAR.to_owned()).await,
            Typed::Indicator(Some(sign)) => {
                self.editor.set_sign(sign).await;
                if sign == Sign::None {
                    self.screen.note("Indicator: off.");
                }
            }
            Typed::Indicator(None) => self.screen.note("Usage: /indicator dots, /indicator arrow or /indicator none."),
            Typed::Choice(choice) => {
                self.ask = None;
                let event = self.speaker.chooses(&self.wire.info.chat, choice);
                self.say(event);
            }
            Typed::Said(text) => {
                let event = self.speaker.says(&self.wire.info.chat, text);
                self.say(event);
            }
        }
        Then::Go
    }

    /// Sends a message. An event that the host does not accept is returned through `unheard`.
    fn say(&self, event: Event) {
        let answer = self.wire.asking().emit(&event);
        let (told, seat, said_here) = (self.unheard.told(), self.unheard.seat(), self.said_here.clone());
        tokio::spawn(async move {
            match answer.await {
                Ok(Emitted::New { inbox_id } | Emitted::Duplicate { duplicate_of: inbox_id }) => {
                    said_here.taken(inbox_id);
                }
                Ok(_) => {}
                // If the conversation has ended, the message is dropped.
                Err(error) => drop(told.send(NotTaken { event, error, seat }).await),
            }
        });
    }

    /// Hands the conversation off to the chat of an instance, after which this terminal leaves. Without an instance it
    /// shows the code with which any chat can claim it.
    async fn hand_off(&mut self, instance: String) -> Then {
        let Some(session) = self.which_session().await else {
            self.screen.note("This conversation has no messages yet, so there is nothing to hand off.");
            return Then::Go;
        };
        let request = if instance.is_empty() {
            ControlRequest::HandoffOffer { session }
        } else {
            ControlRequest::Handoff { session, instance, wait_ms: HANDOFF_WAIT_MS }
        };
        // A refusal arrives at once, and then no progress is shown.
        let mut under_way = match &request {
            ControlRequest::Handoff { instance, .. } => Some(format!("Handing off to {instance} …")),
            _ => None,
        };
        let told = tokio::time::sleep(REFUSED_WITHIN);
        tokio::pin!(told);
        let asked = ask(self.hosts.home().to_owned(), request);
        tokio::pin!(asked);
        // Until the handoff ends no input is accepted, but the host's output is shown.
        let answer = loop {
            tokio::select! {
                answer = &mut asked => break Some(answer),
                () = &mut told, if under_way.is_some() => {
                    self.screen.note(&under_way.take().unwrap_or_default());
                    self.show().await;
                }
                news = self.wire.next() => match news {
                    News::Over(why) => {
                        self.over = Some(why);
                        self.screen.note("Lost the connection to the host, so the result of the handoff is unknown; \
                                          `hermes-host handoff list --all` shows it.");
                        return Then::Go;
                    }
                    news => {
                        self.heard(news).await;
                        self.show().await;
                    }
                },
                key = self.editor.next() => match key {
                    Key::Interrupt | Key::End => break None,
                    // Lines that were typed in the meantime are dropped.
                    Key::Line(_) => self.editor.go_on(),
                },
                () = self.speaker.interrupted() => break None,
            }
        };
        let Some(answer) = answer else {
            self.screen.note("The handoff continues; `hermes-host handoff list --all` shows the result.");
            return Then::Leave;
        };
        let words = match answer {
            Ok(ControlReply::Handoff { handoff }) if handoff.state == "completed" => {
                self.screen.note(&handoff.message);
                self.way_back_told = true;
                return Then::Leave;
            }
            Ok(ControlReply::Handoff { handoff }) => handoff.message,
            Ok(ControlReply::HandoffCode { message, .. }) => format!("To continue in another chat, {message}."),
            Ok(ControlReply::Error { message, .. }) => sentence(format!("Handoff failed: {message}")),
            Ok(_) => "Handoff failed: the host sent an unexpected answer.".to_owned(),
            Err(error) => {
                format!("The result of the handoff is unknown ({error}); `hermes-host handoff list --all` shows it.")
            }
        };
        self.screen.note(&words);
        Then::Go
    }

    /// A host that is leaving accepts nothing; the next one gets the message.
    fn not_taken(&mut self, not_taken: NotTaken) -> Then {
        match self.unheard.judge(not_taken) {
            Fate::Waits => self.screen.note("The host is stopping; your message will be sent to the next one."),
            Fate::SayAgain(event) => self.say(*event),
            Fate::Lost(why) => self.screen.note(&sentence(format!("Not sent: {why}"))),
        }
        Then::Go
    }

    /// Collects the messages that the former host did not accept.
    fn gather(&mut self) {
        for why in self.unheard.gather() {
            self.screen.note(&sentence(format!("Not sent: {why}")));
        }
    }

    /// Ctrl-C: stops the running turn. A second one within `AGAIN_WITHIN` leaves, also without a running turn.
    async fn interrupt(&mut self) -> Then {
        let now = Instant::now();
        let again = self.pressed.replace(now).is_some_and(|before| now - before < AGAIN_WITHIN);
        match self.screen.running() {
            _ if again => return Then::Leave,
            Some(inbox) => {
                let stopping = self.wire.asking().ask("turns.stop", &json!({ "inbox_id": inbox }));
                // The result arrives as the end of the turn.
                tokio::spawn(stopping);
            }
            None => self.screen.note("Press Ctrl-C again or enter /quit to exit."),
        }
        Then::Go
    }

    /// Waits for the next host after one ended, and continues there.
    async fn find_another(&mut self, why: Option<Leaving>) -> Result<Then, ChatError> {
        self.screen.cut();
        self.ask = None;
        self.gather();
        let next = Next::after(why, self.wire.info.alone);
        self.screen.note(match (next, why) {
            (Next::Nobody, _) => return Err(self.nobody_hears()),
            (Next::OneOfUs, _) => "The terminal that ran the host exited; the conversation continues.",
            (_, Some(Leaving::HandOver)) => "Another host is taking over; the conversation continues there.",
            (_, Some(Leaving::Restart)) => "The host is restarting.",
            _ => "Lost the connection to the host. Reconnecting… (Ctrl-C twice to exit)",
        });
        self.show().await;
        let session = self.session.clone();
        let wire = {
            let seat = self.hosts.seat_again(next, session.clone());
            tokio::pin!(seat);
            loop {
                tokio::select! {
                    wire = &mut seat => break wire,
                    key = self.editor.next() => match key {
                        Key::End => return Ok(Then::Leave),
                        Key::Interrupt => {
                            let now = Instant::now();
                            if self.pressed.replace(now).is_some_and(|before| now - before < AGAIN_WITHIN) {
                                return Ok(Then::Leave);
                            }
                        }
                        Key::Line(line) => {
                            match orders::read(&line, None) {
                                Typed::Quit => return Ok(Then::Leave),
                                Typed::Said(text) => {
                                    let event = self.speaker.says(&self.wire.info.chat, text);
                                    if !self.unheard.keep(event) {
                                        self.screen.note("Not sent: too many messages are waiting for the host.");
                                    }
                                }
                                _ => {}
                            }
                            self.editor.go_on();
                        }
                    },
                    () = self.speaker.interrupted() => return Ok(Then::Leave),
                }
            }
        };
        self.wire =
            wire.map_err(|error| ChatError::HostGone(format!("no other host accepted this terminal ({error})")))?;
        self.screen.note(match (&session, self.wire.info.alone) {
            (Some(_), false) => "The host is running again; this conversation continues.",
            (None, false) => "The host is running again.",
            (_, true) if self.hosts.runs_one() => "This terminal now runs the host, without adapters.",
            (_, true) => "Another terminal now runs the host, without adapters.",
        });
        self.gather();
        for event in self.unheard.seated() {
            self.say(event);
        }
        Ok(Then::Go)
    }

    /// Reports the messages that no host accepted as lost, because no other host is expected.
    fn nobody_hears(&mut self) -> ChatError {
        for event in self.unheard.seated() {
            self.screen.note(&format!("Not sent: {}", event.text));
        }
        ChatError::HostGone("the conversation is kept".to_owned())
    }

    /// Asks for the current session of this slot. A turn that begins may be a background job with its own session.
    fn find_out(&self) {
        let (asking, chat, found) = (self.wire.asking().clone(), self.wire.info.chat.clone(), self.find.clone());
        tokio::spawn(async move {
            if let Some(session) = session_at(&asking, &chat).await {
                // If the conversation has ended, nobody needs the result.
                let _ = found.send(session).await;
            }
        });
    }

    fn is_in(&mut self, session: String) -> Then {
        let before = self.session.replace(session);
        if before.is_some() && before != self.session {
            let words = self.session.as_ref().map(|session| format!("Switched to session {session}."));
            self.screen.note(&words.unwrap_or_default());
        }
        Then::Go
    }

    /// Returns the session to which the user can return.
    async fn which_session(&self) -> Option<String> {
        let asked = session_at(self.wire.asking(), &self.wire.info.chat);
        let answer = tokio::time::timeout(SESSION_WAIT, asked).await.ok().flatten();
        answer.or_else(|| self.session.clone())
    }
}

/// Asks the host for the session of a slot.
async fn session_at(asking: &Asking, chat: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Listed {
        id: String,
        chats: Vec<Chat>,
    }
    let listed = asking.ask("sessions.list", &json!({ "limit": SESSIONS })).await.ok()?;
    let listed: Vec<Listed> = serde_json::from_value(listed).ok()?;
    let is_here = |listed: &Listed| listed.chats.iter().any(|there| there.id == chat);
    listed.into_iter().find(is_here).map(|listed| listed.id)
}

async fn ask(home: PathBuf, request: ControlRequest) -> Result<ControlReply, ClientError> {
    Client::connect(&home).await?.ask(&request).await
}
