//! Grammar of destinations, as people, agents and files write them.
//!
//! ```text
//! origin                          the chat of the request
//! local                           this machine; nothing is sent
//! <instance>                      the home channel of the instance
//! <instance>:@<name>              a known chat by its name
//! <instance>:<chat>[:<thread>]    a chat by its id
//! ```
//!
//! [`Target`] covers only the grammar. Ids may contain colons, and only their adapter can parse them. The text
//! after the instance therefore stays one [`Target::Place`], with [`readings`] as a fallback for adapters that
//! do not parse it. [`by_name`] looks up names among the known chats. An unknown destination is an error with
//! suggestions, never `local`.

use std::fmt;
use std::str::FromStr;

use hermes_protocol::text::one_line;

#[cfg(test)]
mod tests;

/// Keyword for the chat of the request.
const ORIGIN: &str = "origin";

/// Keyword for this machine.
const LOCAL: &str = "local";

/// Lowest similarity of a suggested name, from 0 (nothing alike) to 1 (equal).
const NEARNESS_MIN: f64 = 0.5;

/// A destination, parsed but not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// The chat of the request.
    Origin,
    /// This machine; nothing is sent.
    Local,
    /// The home channel of an instance.
    Home {
        /// Name of the instance.
        instance: String,
    },
    /// A known chat by its name.
    Name {
        /// Name of the instance.
        instance: String,
        /// Name without the `@`.
        name: String,
    },
    /// A chat by its id, with an optional thread. Only the adapter can parse it.
    Place {
        /// Name of the instance.
        instance: String,
        /// Text after the instance.
        place: String,
    },
}

/// Syntax error of a destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The text is empty.
    #[error("the target is empty; use INSTANCE, INSTANCE:CHAT, INSTANCE:CHAT:THREAD or INSTANCE:@NAME")]
    Empty,
    /// The text before the colon is not an instance name.
    #[error(
        "{text:?} does not begin with an instance name; use INSTANCE, INSTANCE:CHAT, INSTANCE:CHAT:THREAD or INSTANCE:@NAME"
    )]
    NoInstance {
        /// The rejected text.
        text: String,
    },
    /// The text after the colon is empty.
    #[error("{instance}: has no chat after the colon; use {instance} for its home channel, or {instance}:CHAT")]
    NoPlace {
        /// Name of the instance.
        instance: String,
    },
    /// The text after the `@` is empty.
    #[error("{instance}:@ has no name after the @; use {instance}:@NAME")]
    NoName {
        /// Name of the instance.
        instance: String,
    },
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let text = text.trim();
        match text {
            "" => return Err(TargetError::Empty),
            ORIGIN => return Ok(Self::Origin),
            LOCAL => return Ok(Self::Local),
            _ => {}
        }
        let (instance, place) = match text.split_once(':') {
            Some((instance, place)) => (instance.trim_end(), Some(place.trim_start())),
            None => (text, None),
        };
        if instance.is_empty() || instance.starts_with('@') || instance.chars().any(char::is_whitespace) {
            return Err(TargetError::NoInstance { text: text.to_owned() });
        }
        let instance = instance.to_owned();
        match place {
            None => Ok(Self::Home { instance }),
            Some("") => Err(TargetError::NoPlace { instance }),
            Some(place) => match place.strip_prefix('@').map(str::trim_start) {
                None => Ok(Self::Place { instance, place: place.to_owned() }),
                Some("") => Err(TargetError::NoName { instance }),
                Some(name) => Ok(Self::Name { instance, name: name.to_owned() }),
            },
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin => f.write_str(ORIGIN),
            Self::Local => f.write_str(LOCAL),
            Self::Home { instance } => f.write_str(instance),
            Self::Name { instance, name } => write!(f, "{instance}:@{name}"),
            Self::Place { instance, place } => write!(f, "{instance}:{place}"),
        }
    }
}

/// Returns the possible splits of a place into chat and thread, for an adapter that does not parse its own ids:
/// first the whole text as a chat, then every split at a colon, the longest chat first.
pub fn readings(place: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let cuts = place.rmatch_indices(':').filter_map(|(at, _)| {
        let (chat, thread) = (&place[..at], &place[at + 1..]);
        (!chat.is_empty() && !thread.is_empty()).then_some((chat, Some(thread)))
    });
    std::iter::once((place, None)).chain(cuts)
}

/// Result of a lookup by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named<T> {
    /// A unique match.
    One(T),
    /// Several matches, with their names.
    Several(Vec<(String, T)>),
    /// No match; the most similar names, the best first, at most [`OFFERED_MAX`].
    None(Vec<String>),
}

/// Highest number of suggested names.
pub const OFFERED_MAX: usize = 3;

/// Finds an entry by its name: an exact match, ignoring case and a leading `#`, or else a unique prefix.
pub fn by_name<'a, T>(name: &str, known: impl IntoIterator<Item = (&'a str, T)>) -> Named<T> {
    let wanted = fold(name);
    let (mut exact, mut begun, mut near) = (Vec::new(), Vec::new(), Vec::new());
    for (known, what) in known {
        let folded = fold(known);
        if folded == wanted {
            exact.push((known.to_owned(), what));
        } else if !wanted.is_empty() && folded.starts_with(&wanted) {
            begun.push((known.to_owned(), what));
        } else {
            near.push((strsim::normalized_damerau_levenshtein(&wanted, &folded), known));
        }
    }
    let mut found = if exact.is_empty() { begun } else { exact };
    match found.len() {
        0 => Named::None(nearest(near)),
        1 => Named::One(found.remove(0).1),
        _ => Named::Several(found),
    }
}

fn nearest(mut near: Vec<(f64, &str)>) -> Vec<String> {
    near.retain(|(likeness, _)| *likeness >= NEARNESS_MIN);
    near.sort_by(|(one, a), (other, b)| other.total_cmp(one).then_with(|| a.cmp(b)));
    near.dedup_by(|(_, a), (_, b)| a == b);
    near.into_iter().take(OFFERED_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// Normalizes a name for comparison.
fn fold(name: &str) -> String {
    one_line(&name.trim().trim_start_matches('#').to_lowercase())
}
