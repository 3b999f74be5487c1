//! Dispatch of calls: from a method's name and bytes to the author's traits, and back to
//! bytes.
//!
//! `export_adapter!(T: Edit + Typing)` builds the type `(Edit, (Typing, ()))` from the
//! markers in [`parts`]. Each marker knows its capability names and its methods, so the
//! manifest and the dispatch use the same list.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_adapter_abi::status;
use hermes_protocol::{
    CallError, Chat, CommandsCall, DraftCall, EditCall, FetchCall, HandoffThreadCall, LookupCall, Outgoing, ReactCall,
    RenameThreadCall, RenderCall, SentMessage, TurnEventCall, TypingCall, method,
};
use serde::de::DeserializeOwned;

use crate::adapter::{
    Adapter, ChatInfo, CommandsMenu, Delete, Draft, Edit, Fetch, HandoffThread, NativeStream, React, Reconcile,
    RenameThread, Render, ResolveTarget, Typing,
};
use crate::answer::Reply;
use crate::manifest::{self, Names, TURN_EVENT};

/// A running call of the author's code.
pub(crate) type ReplyFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// An adapter type, as `export_adapter!` describes it.
pub trait Exported: Adapter {
    /// The listed capability traits.
    type Parts: Parts<Self>;

    /// Returns the bytes of the manifest.
    fn manifest() -> &'static [u8];
}

/// Returns the length of the manifest of `A`, in bytes.
pub const fn manifest_len<A: Exported>() -> usize {
    manifest::len(&A::MANIFEST, <A::Parts as Parts<A>>::NAMES)
}

/// Returns the manifest of `A`.
pub const fn manifest_bytes<A: Exported, const N: usize>() -> [u8; N] {
    manifest::bytes(&A::MANIFEST, <A::Parts as Parts<A>>::NAMES)
}

/// A list of capabilities: `()` or `(Part, Parts)`.
pub trait Parts<A: Adapter> {
    /// The capability names of the list.
    const NAMES: &'static Names;

    /// Starts `method` if one of the capabilities has it.
    #[doc(hidden)]
    fn answer(adapter: &Arc<A>, method: &str, payload: &[u8]) -> Option<Call>;
}

/// A capability trait with its methods.
pub trait Part<A: Adapter> {
    /// The capability names in the manifest.
    const NAMES: &'static [&'static str];

    /// Starts `method` if it belongs to this trait.
    #[doc(hidden)]
    fn answer(adapter: &Arc<A>, method: &str, payload: &[u8]) -> Option<Call>;
}

/// A dispatched call; opaque outside of the SDK.
pub struct Call(pub(crate) ReplyFuture);

impl<A: Adapter> Parts<A> for () {
    const NAMES: &'static Names = &Names { head: &[], tail: None };

    fn answer(_: &Arc<A>, _: &str, _: &[u8]) -> Option<Call> {
        None
    }
}

impl<A: Adapter, P: Part<A>, Rest: Parts<A>> Parts<A> for (P, Rest) {
    const NAMES: &'static Names = &Names { head: P::NAMES, tail: Some(Rest::NAMES) };

    fn answer(adapter: &Arc<A>, method: &str, payload: &[u8]) -> Option<Call> {
        P::answer(adapter, method, payload).or_else(|| Rest::answer(adapter, method, payload))
    }
}

/// Starts one call.
pub(crate) fn dispatch<A: Exported>(adapter: &Arc<A>, method: &str, payload: &[u8]) -> ReplyFuture {
    let adapter_ = Arc::clone(adapter);
    let known = match method {
        method::CONNECT => Some(plain(async move { Reply::empty(adapter_.connect().await) })),
        method::RUN => Some(plain(async move { Reply::empty(adapter_.run().await) })),
        method::HEALTH => Some(plain(async move { Reply::empty(adapter_.health().await) })),
        method::DISCONNECT => Some(plain(async move {
            adapter_.disconnect().await;
            Reply::empty::<CallError>(Ok(()))
        })),
        method::SEND => {
            Some(with(method, payload, |outgoing: Outgoing| async move { Reply::ok(&adapter_.send(outgoing).await) }))
        }
        other => A::Parts::answer(adapter, other, payload),
    };
    match known {
        Some(Call(answering)) => answering,
        None => {
            let sentence = format!("adapter `{}` has no method `{method}`", A::MANIFEST.id());
            Box::pin(std::future::ready(Reply::error(status::UNSUPPORTED, "unsupported", sentence)))
        }
    }
}

fn plain(work: impl Future<Output = Reply> + Send + 'static) -> Call {
    Call(Box::pin(work))
}

/// Parses the payload and continues with `work`; an invalid payload is an error of the caller.
fn with<T, F>(method: &str, payload: &[u8], work: impl FnOnce(T) -> F) -> Call
where
    T: DeserializeOwned,
    F: Future<Output = Reply> + Send + 'static,
{
    match serde_json::from_slice(payload) {
        Ok(arguments) => plain(work(arguments)),
        Err(error) => {
            let sentence = format!("the payload of `{method}` cannot be parsed: {error}");
            plain(std::future::ready(Reply::error(status::ERR, "invalid", sentence)))
        }
    }
}

/// The argument of `resolve_target`.
#[derive(serde::Deserialize)]
struct Target {
    target: String,
}

/// Declares the marker of a capability with its names and methods.
macro_rules! part {
    ($trait:ident [$($name:expr),*] { $($method:path => |$adapter:ident, $args:ident: $Args:ty| $body:expr;)+ }) => {
        /// The marker of the trait with the same name.
        #[derive(Debug)]
        pub struct $trait;

        impl<A: super::$trait> Part<A> for $trait {
            const NAMES: &'static [&'static str] = &[$($name),*];

            fn answer(adapter: &Arc<A>, method: &str, payload: &[u8]) -> Option<Call> {
                match method {
                    $($method => {
                        let $adapter = Arc::clone(adapter);
                        Some(with(method, payload, |$args: $Args| async move { $body }))
                    })+
                    _ => None,
                }
            }
        }
    };
}

/// The markers that `export_adapter!` uses, one for each capability trait.
pub mod parts {
    use super::*;
    use serde::de::IgnoredAny;

    part!(Edit ["edit"] {
        method::EDIT => |adapter, call: EditCall| Reply::ok(&adapter.edit(call.message, call.outgoing).await);
    });
    part!(Delete ["delete"] {
        method::DELETE => |adapter, message: SentMessage| Reply::empty(adapter.delete(message).await);
    });
    part!(Typing ["typing"] {
        method::TYPING => |adapter, call: TypingCall| Reply::empty(adapter.typing(call.chat, call.on).await);
    });
    part!(React ["reactions"] {
        method::REACT => |adapter, call: ReactCall|
            Reply::empty(adapter.react(call.message, call.emoji, call.instead_of).await);
    });
    part!(HandoffThread ["create_handoff_thread"] {
        method::CREATE_HANDOFF_THREAD => |adapter, call: HandoffThreadCall|
            Reply::of(adapter.create_handoff_thread(call.chat, call.name, call.key).await);
    });
    part!(RenameThread ["rename_thread"] {
        method::RENAME_THREAD => |adapter, call: RenameThreadCall|
            Reply::empty(adapter.rename_thread(call.chat, call.name).await);
    });
    part!(Render ["render"] {
        method::RENDER => |adapter, call: RenderCall| Reply::of(adapter.render(call.markdown, call.limit).await);
    });
    part!(CommandsMenu ["commands_menu"] {
        method::SET_COMMANDS => |adapter, call: CommandsCall| Reply::empty(adapter.set_commands(call.commands).await);
    });
    part!(ResolveTarget ["resolve_target"] {
        method::RESOLVE_TARGET => |adapter, call: Target| Reply::of(adapter.resolve_target(call.target).await);
    });
    part!(ChatInfo ["chat_info"] {
        method::CHAT_INFO => |adapter, chat: Chat| Reply::of(adapter.chat_info(chat).await);
        method::CHAT_LIST => |adapter, _nothing: IgnoredAny| Reply::of(adapter.chat_list().await);
    });
    part!(Draft ["drafts"] {
        method::DRAFT => |adapter, call: DraftCall| Reply::empty(adapter.draft(call.chat, call.text).await);
    });
    part!(NativeStream [TURN_EVENT] {
        method::TURN_EVENT => |adapter, call: TurnEventCall|
            Reply::empty(adapter.turn_event(call.inbox_id, call.seq, call.event).await);
    });
    part!(Fetch ["fetch"] {
        method::FETCH => |adapter, call: FetchCall|
            Reply::ok(&adapter.fetch(call.file, Duration::from_millis(call.within_ms)).await);
    });
    part!(Reconcile ["lookup"] {
        method::LOOKUP => |adapter, call: LookupCall| Reply::of(adapter.lookup(call.key, call.chat).await);
    });
}
