//! The traits an author implements.
//!
//! They are written with `-> impl Future + Send` and implemented with `async fn`.
//! A call is dropped at an await when the host cancels it, so a method keeps no
//! invariant across an await that a drop would break. Methods of one instance run
//! on its one thread, interleaved at awaits, unless it asks for more.

use std::future::Future;
use std::time::Duration;

use hermes_protocol::{
    Attachment, CallError, Chat, CommandInfo, ConnectError, LookupReply, Outgoing, RenderedPart, SendOutcome,
    SentMessage, TurnEvent,
};

use crate::{AdapterConfig, Host, Manifest};

/// One running connection to a platform account.
pub trait Adapter: Sized + Send + Sync + 'static {
    /// What the platform is like; made by [`manifest!`](crate::manifest).
    const MANIFEST: Manifest;

    /// How many threads the instance's calls and tasks run on, besides its own. With 0 they all share
    /// that one, which is right for almost every platform: a thread more costs memory in every instance.
    #[cfg(feature = "multi-thread")]
    const WORKER_THREADS: usize = 0;

    /// The instance's own configuration keys.
    type Config: AdapterConfig;

    /// Judges values that are of the right kind and still cannot be meant: `hermes-host config check`
    /// asks it, and so does the SDK before [`Adapter::new`]. Quick and without I/O; what only a
    /// platform can tell is for [`Adapter::connect`]. By default nothing is wrong.
    ///
    /// # Errors
    ///
    /// One sentence that names the key and what to write instead. It is shown: no secret's value in it.
    fn check(config: &Self::Config) -> Result<(), String> {
        let _ = config;
        Ok(())
    }

    /// Judges a home channel, as an operator writes it into the section, as far as that goes without asking
    /// the platform: what [`ResolveTarget`] could never find is refused. By default nothing is wrong.
    ///
    /// # Errors
    ///
    /// One sentence that says what to write instead.
    fn check_home_channel(home: &str) -> Result<(), String> {
        let _ = home;
        Ok(())
    }

    /// Makes the instance. Quick and without I/O: it has one second. Runs on the
    /// instance's thread, inside its runtime.
    fn new(config: Self::Config, host: Host) -> Self;

    /// Opens the link. Called again on the same instance after the link was lost;
    /// the host owns the backoff.
    ///
    /// # Errors
    ///
    /// `fatal` when a person has to do something first, `retry` otherwise.
    fn connect(&self) -> impl Future<Output = Result<(), ConnectError>> + Send;

    /// Receives and [emits](Host::emit) until the link is lost. Called after
    /// `connect`; returning means that there is no link any more.
    ///
    /// By default it waits until the host drops the call.
    ///
    /// # Errors
    ///
    /// Why the link was lost.
    fn run(&self) -> impl Future<Output = Result<(), ConnectError>> + Send {
        std::future::pending()
    }

    /// Proves a round trip to the platform.
    ///
    /// # Errors
    ///
    /// When the link does not carry data.
    fn health(&self) -> impl Future<Output = Result<(), CallError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Closes the link politely. Not called after a crash.
    fn disconnect(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Sends one part, as it is: it never splits and decides no policy. Every error
    /// of the platform is classified here, once, into the outcome.
    fn send(&self, message: Outgoing) -> impl Future<Output = SendOutcome> + Send;
}

/// A sent message can be changed.
pub trait Edit: Adapter {
    /// Makes `message` say what `outgoing` says.
    fn edit(&self, message: SentMessage, outgoing: Outgoing) -> impl Future<Output = SendOutcome> + Send;
}

/// A sent message can be taken back.
pub trait Delete: Adapter {
    /// Takes `message` back.
    ///
    /// # Errors
    ///
    /// When the platform refuses or cannot be reached.
    fn delete(&self, message: SentMessage) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// Typing can be shown.
pub trait Typing: Adapter {
    /// Shows typing once, or ends it.
    ///
    /// # Errors
    ///
    /// When the platform refuses or cannot be reached.
    fn typing(&self, chat: Chat, on: bool) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// This account can react.
pub trait React: Adapter {
    /// Reacts to `message`, in place of what this account reacted with before; an empty `emoji` only takes that
    /// back. What that was stands in `instead_of`, where the host knows of one. A platform that has other emoji
    /// takes the nearest.
    ///
    /// # Errors
    ///
    /// When the platform refuses or cannot be reached.
    fn react(
        &self,
        message: SentMessage,
        emoji: String,
        instead_of: Option<String>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// The host may open a thread for a handoff.
pub trait HandoffThread: Adapter {
    /// Opens a thread `name` in `chat` and returns it, or `None` when this chat has
    /// no threads. The same `key` never opens two.
    ///
    /// # Errors
    ///
    /// When the platform refuses or cannot be reached.
    fn create_handoff_thread(
        &self,
        chat: Chat,
        name: String,
        key: String,
    ) -> impl Future<Output = Result<Option<Chat>, CallError>> + Send;
}

/// A thread can be given another name.
pub trait RenameThread: Adapter {
    /// Calls the thread `chat` `name` from now on.
    ///
    /// # Errors
    ///
    /// When `chat` is no thread, or the platform refuses or cannot be reached.
    fn rename_thread(&self, chat: Chat, name: String) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// The adapter renders text itself, because its dialect is its own.
pub trait Render: Adapter {
    /// Renders house markdown into parts of at most `limit` units. Pure.
    ///
    /// # Errors
    ///
    /// When the text cannot be rendered at all.
    fn render(&self, markdown: String, limit: u32)
    -> impl Future<Output = Result<Vec<RenderedPart>, CallError>> + Send;
}

/// The platform has a command menu.
pub trait CommandsMenu: Adapter {
    /// Replaces the menu.
    ///
    /// # Errors
    ///
    /// When the platform refuses or cannot be reached.
    fn set_commands(&self, commands: Vec<CommandInfo>) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// What a person writes for a chat can be resolved.
pub trait ResolveTarget: Adapter {
    /// Turns `target` into a chat, or `None` when there is none.
    ///
    /// It is what stands behind the colon of `INSTANCE:CHAT`, or in `home_channel`, as a person wrote it: an id of the
    /// platform, perhaps with `:THREAD`; `@NAME` with its `@`, where no chat that the host knows goes by that name; or
    /// what the platform's people write, such as `#room`.
    ///
    /// # Errors
    ///
    /// When the platform cannot be reached.
    fn resolve_target(&self, target: String) -> impl Future<Output = Result<Option<Chat>, CallError>> + Send;
}

/// Chats can be described and listed.
pub trait ChatInfo: Adapter {
    /// Describes `chat`, or `None` when it does not exist.
    ///
    /// # Errors
    ///
    /// When the platform cannot be reached.
    fn chat_info(&self, chat: Chat) -> impl Future<Output = Result<Option<Chat>, CallError>> + Send;

    /// Lists the chats this account knows.
    ///
    /// # Errors
    ///
    /// When the platform cannot be reached.
    fn chat_list(&self) -> impl Future<Output = Result<Vec<Chat>, CallError>> + Send;
}

/// An unsent draft can be shown.
pub trait Draft: Adapter {
    /// Shows `text` as a draft in `chat`.
    ///
    /// # Errors
    ///
    /// When the platform refuses or cannot be reached.
    fn draft(&self, chat: Chat, text: String) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// A running turn is shown by its own events (`stream: native`).
pub trait NativeStream: Adapter {
    /// Event number `seq` of the turn that answers `inbox_id`; one at a time, in
    /// order. Returning is what asks for the next.
    ///
    /// # Errors
    ///
    /// When nobody listens any more.
    fn turn_event(
        &self,
        inbox_id: i64,
        seq: u64,
        event: TurnEvent,
    ) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// An event may name files that are brought later, once the host knows that their sender may speak.
pub trait Fetch: Adapter {
    /// Brings `file`, whose `fetch` an event of this adapter named, perhaps in an earlier life: asks for room,
    /// writes it, commits it, and returns it as [`fetched`](Attachment::fetched). One that cannot be had, because it
    /// is gone, too large or too slow, is returned as [`not_fetched`](Attachment::not_fetched). The host cancels the
    /// call soon after `within`.
    fn fetch(&self, file: Attachment, within: Duration) -> impl Future<Output = Attachment> + Send;
}

/// Whether a doubtful send arrived can be looked up (`delivery: reconcilable`).
pub trait Reconcile: Adapter {
    /// Looks for the message that was sent to `chat` under `key`.
    ///
    /// # Errors
    ///
    /// When the platform cannot be reached.
    fn lookup(&self, key: String, chat: Chat) -> impl Future<Output = Result<LookupReply, CallError>> + Send;
}
