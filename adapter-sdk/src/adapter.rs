//! The traits that an author implements.
//!
//! The traits are declared with `-> impl Future + Send` and implemented with `async fn`. The host
//! cancels a call by dropping it at an await, so a method must not rely on running to its
//! end. Methods of one instance run on its one thread, interleaved at awaits, unless the
//! adapter requests more threads.

use std::future::Future;
use std::time::Duration;

use hermes_protocol::{
    Attachment, CallError, Chat, CommandInfo, ConnectError, LookupReply, Outgoing, RenderedPart, SendOutcome,
    SentMessage, TurnEvent,
};

use crate::{AdapterConfig, Host, Manifest};

/// One running connection to a platform account.
pub trait Adapter: Sized + Send + Sync + 'static {
    /// The properties of the platform; created by [`manifest!`](crate::manifest).
    const MANIFEST: Manifest;

    /// The number of additional threads for the instance's calls and tasks. With 0 they all share the
    /// instance's own thread, which suits almost every platform: each additional thread costs memory in
    /// every instance.
    #[cfg(feature = "multi-thread")]
    const WORKER_THREADS: usize = 0;

    /// The instance's own configuration keys.
    type Config: AdapterConfig;

    /// Checks for values of the right type that are still invalid. `hermes-host config check` and the
    /// SDK, before [`Adapter::new`], call it. Must be quick and without I/O; checks that need the
    /// platform belong in [`Adapter::connect`]. The default accepts every configuration.
    ///
    /// # Errors
    ///
    /// One sentence that names the key and the value to write instead. The sentence is shown to the operator and
    /// must not contain the value of a secret.
    fn check(config: &Self::Config) -> Result<(), String> {
        let _ = config;
        Ok(())
    }

    /// Checks the home channel that an operator wrote into the section, as far as possible without the
    /// platform: a value that [`ResolveTarget`] could never resolve is rejected. The default accepts every
    /// value.
    ///
    /// # Errors
    ///
    /// One sentence that names the value to write instead.
    fn check_home_channel(home: &str) -> Result<(), String> {
        let _ = home;
        Ok(())
    }

    /// Creates the instance. Must be quick and without I/O: the limit is one second. Runs
    /// on the instance's thread, inside its runtime.
    fn new(config: Self::Config, host: Host) -> Self;

    /// Opens the link. Called again on the same instance after the link is lost; the host
    /// decides the backoff.
    ///
    /// # Errors
    ///
    /// `fatal` if a person has to act first, otherwise `retry`.
    fn connect(&self) -> impl Future<Output = Result<(), ConnectError>> + Send;

    /// Receives and [emits](Host::emit) events until the link is lost. Called after
    /// `connect`; a return means that the link is lost.
    ///
    /// The default waits until the host drops the call.
    ///
    /// # Errors
    ///
    /// The reason for the loss of the link.
    fn run(&self) -> impl Future<Output = Result<(), ConnectError>> + Send {
        std::future::pending()
    }

    /// Checks the link with a round trip to the platform.
    ///
    /// # Errors
    ///
    /// If the link does not transfer data.
    fn health(&self) -> impl Future<Output = Result<(), CallError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Closes the link cleanly. Not called after a crash.
    fn disconnect(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Sends one part unchanged, without splitting and without policy. Every error of the
    /// platform is classified here, once, into the outcome.
    fn send(&self, message: Outgoing) -> impl Future<Output = SendOutcome> + Send;
}

/// The capability to edit a sent message.
pub trait Edit: Adapter {
    /// Changes `message` to the content of `outgoing`.
    fn edit(&self, message: SentMessage, outgoing: Outgoing) -> impl Future<Output = SendOutcome> + Send;
}

/// The capability to delete a sent message.
pub trait Delete: Adapter {
    /// Deletes `message`.
    ///
    /// # Errors
    ///
    /// If the platform rejects the call or is unreachable.
    fn delete(&self, message: SentMessage) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// The capability to show typing.
pub trait Typing: Adapter {
    /// Shows or ends the typing indicator.
    ///
    /// # Errors
    ///
    /// If the platform rejects the call or is unreachable.
    fn typing(&self, chat: Chat, on: bool) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// The capability to react to messages.
pub trait React: Adapter {
    /// Reacts to `message` and replaces the account's earlier reaction; an empty `emoji` only removes it.
    /// `instead_of` contains the earlier reaction if the host knows it. A platform with a fixed set of emoji
    /// uses the nearest one.
    ///
    /// # Errors
    ///
    /// If the platform rejects the call or is unreachable.
    fn react(
        &self,
        message: SentMessage,
        emoji: String,
        instead_of: Option<String>,
    ) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// The capability to open a thread for a handoff.
pub trait HandoffThread: Adapter {
    /// Opens a thread `name` in `chat` and returns it, or `None` if the chat does not
    /// support threads. The same `key` never opens two threads.
    ///
    /// # Errors
    ///
    /// If the platform rejects the call or is unreachable.
    fn create_handoff_thread(
        &self,
        chat: Chat,
        name: String,
        key: String,
    ) -> impl Future<Output = Result<Option<Chat>, CallError>> + Send;
}

/// The capability to rename a thread.
pub trait RenameThread: Adapter {
    /// Renames the thread `chat` to `name`.
    ///
    /// # Errors
    ///
    /// If `chat` is not a thread, or the platform rejects the call or is unreachable.
    fn rename_thread(&self, chat: Chat, name: String) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// The capability to render text in a dialect of the adapter's own.
pub trait Render: Adapter {
    /// Renders house markdown into parts of at most `limit` units. Must be a pure function.
    ///
    /// # Errors
    ///
    /// If the text cannot be rendered at all.
    fn render(&self, markdown: String, limit: u32)
    -> impl Future<Output = Result<Vec<RenderedPart>, CallError>> + Send;
}

/// The capability to show a command menu.
pub trait CommandsMenu: Adapter {
    /// Replaces the menu.
    ///
    /// # Errors
    ///
    /// If the platform rejects the call or is unreachable.
    fn set_commands(&self, commands: Vec<CommandInfo>) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// The capability to resolve a target that a person wrote.
pub trait ResolveTarget: Adapter {
    /// Resolves `target` to a chat, or `None` if there is none.
    ///
    /// The target is the text after the colon of `INSTANCE:CHAT`, or in `home_channel`, as a person wrote it: an id of
    /// the platform, possibly with `:THREAD`; `@NAME` with its `@` if no known chat has that name; or a form that the
    /// platform's users write, such as `#room`.
    ///
    /// # Errors
    ///
    /// If the platform is unreachable.
    fn resolve_target(&self, target: String) -> impl Future<Output = Result<Option<Chat>, CallError>> + Send;
}

/// The capability to describe and list chats.
pub trait ChatInfo: Adapter {
    /// Describes `chat`, or returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// If the platform is unreachable.
    fn chat_info(&self, chat: Chat) -> impl Future<Output = Result<Option<Chat>, CallError>> + Send;

    /// Lists the chats that this account knows.
    ///
    /// # Errors
    ///
    /// If the platform is unreachable.
    fn chat_list(&self) -> impl Future<Output = Result<Vec<Chat>, CallError>> + Send;
}

/// The capability to show a draft before it is sent.
pub trait Draft: Adapter {
    /// Shows `text` as a draft in `chat`.
    ///
    /// # Errors
    ///
    /// If the platform rejects the call or is unreachable.
    fn draft(&self, chat: Chat, text: String) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// The capability to show a running turn by its events (`stream: native`).
pub trait NativeStream: Adapter {
    /// Processes event number `seq` of the turn that answers `inbox_id`. Calls are
    /// sequential and in order; the next event follows after the return.
    ///
    /// # Errors
    ///
    /// If no reader is connected any more.
    fn turn_event(
        &self,
        inbox_id: i64,
        seq: u64,
        event: TurnEvent,
    ) -> impl Future<Output = Result<(), CallError>> + Send;
}

/// The capability to download files later that an event names, after the host has authorized the sender.
pub trait Fetch: Adapter {
    /// Downloads `file`, whose `fetch` is a reference from an earlier event of this adapter, possibly of an earlier
    /// run: reserves a path, writes the file, commits it, and returns it as [`fetched`](Attachment::fetched). A file
    /// that is gone, too large or too slow is returned as [`not_fetched`](Attachment::not_fetched). The host cancels
    /// the call shortly after `within`.
    fn fetch(&self, file: Attachment, within: Duration) -> impl Future<Output = Attachment> + Send;
}

/// The capability to look up whether a send with an unknown result arrived (`delivery: reconcilable`).
pub trait Reconcile: Adapter {
    /// Looks up the message that was sent to `chat` under `key`.
    ///
    /// # Errors
    ///
    /// If the platform is unreachable.
    fn lookup(&self, key: String, chat: Chat) -> impl Future<Output = Result<LookupReply, CallError>> + Send;
}
