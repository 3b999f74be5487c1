//! The targets, and the property that each input must satisfy.

mod agent;
mod chat;
mod files;
mod search;
mod shell;
mod text;
mod wire;

use crate::ring::Target;

/// All of them, but for those of adapters that have a ring of their own.
pub fn all() -> Vec<Target> {
    vec![
        wire::payloads(),
        wire::frames(),
        wire::control(),
        wire::events(),
        wire::completions(),
        agent::arguments(),
        search::search(),
        files::library(),
        files::configuration(),
        text::markup(),
        text::command(),
        text::mask(),
        chat::key(),
        chat::telegram(),
        shell::shell(),
    ]
}
