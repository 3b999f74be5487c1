//! The common imports of an adapter: `use hermes_adapter_sdk::prelude::*;`.

pub use crate::{
    Adapter, AdapterConfig, ChatInfo, CommandsMenu, Delete, Draft, Edit, Fetch, HandoffThread, Host, Kv, Manifest,
    Media, MediaInfo, NativeStream, React, Reconcile, RenameThread, Render, ResolveTarget, Typing, export_adapter,
    manifest,
};

pub use crate::protocol::{
    Addressed, Attachment, AttachmentKind, CallError, Chat, ChatType, ChoiceMade, ChoiceOption, Choices, CommandInfo,
    ConnectError, Deliver, Emitted, Event, EventKind, Format, Forwarded, HostInfo, LinkWord, LookupReply, MediaCreate,
    MediaSlot, OutMedia, Outgoing, Purpose, Receipt, RefusalKind, RenderedPart, ReplyTo, SendOutcome, Sender,
    SentMessage, TurnEvent, Usage, WaitScope,
};

pub use crate::{serde_json, tokio, tracing};
