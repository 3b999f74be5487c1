//! Where something goes, as people, agents and files write it.
//!
//! ```text
//! origin                          where it was asked for
//! local                           nowhere: it stays on this machine
//! <instance>                      its home channel
//! <instance>:@<name>              a chat that is known by this name
//! <instance>:<chat>[:<thread>]    a chat by its id
//! ```
//!
//! [`Target`] is only the grammar. An id may hold colons itself, and only its adapter can
//! read it: what stands behind the instance stays one [`Target::Place`], with [`readings`]
//! for hosts whose adapter does not. Names are looked up with [`by_name`] among the chats
//! that are known. What is not known is an error that offers what is near, never `local`.

use std::fmt;
use std::str::FromStr;

#[cfg(test)]
mod tests;

/// The word for where it was asked for.
const ORIGIN: &str = "origin";

/// The word for this machine.
const LOCAL: &str = "local";

/// How near a name must be to be offered, from 0 (nothing alike) to 1.
const NEARNESS_MIN: f64 = 0.5;

/// A destination, read but not yet looked up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Where it was asked for.
    Origin,
    /// Nowhere.
    Local,
    /// The home channel of an instance.
    Home {
        /// The instance.
        instance: String,
    },
    /// A chat that is known by name.
    Name {
        /// The instance.
        instance: String,
        /// The name, without the `@`.
        name: String,
    },
    /// A chat by its id, and perhaps a thread: the adapter's to read.
    Place {
        /// The instance.
        instance: String,
        /// What stands behind the instance.
        place: String,
    },
}

/// Why a text names no destination. Whoever wrote it can mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Nothing is written.
    #[error("a target is empty; write INSTANCE, INSTANCE:CHAT, INSTANCE:CHAT:THREAD or INSTANCE:@NAME")]
    Empty,
    /// What stands before the colon can be no instance.
    #[error("{text:?} begins with no instance; write INSTANCE, INSTANCE:CHAT, INSTANCE:CHAT:THREAD or INSTANCE:@NAME")]
    NoInstance {
        /// The text.
        text: String,
    },
    /// Nothing stands behind the colon.
    #[error("{instance}: names no chat; write {instance} for its home channel, or {instance}:CHAT")]
    NoPlace {
        /// The instance.
        instance: String,
    },
    /// The `@` is followed by nothing.
    #[error("{instance}:@ names nobody; write {instance}:@NAME")]
    NoName {
        /// The instance.
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

/// The ways to read a place as a chat and a thread, for an adapter that does not read its
/// own ids: the whole as a chat, then every cut at a colon, the longest chat first.
pub fn readings(place: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let cuts = place.rmatch_indices(':').filter_map(|(at, _)| {
        let (chat, thread) = (&place[..at], &place[at + 1..]);
        (!chat.is_empty() && !thread.is_empty()).then_some((chat, Some(thread)))
    });
    std::iter::once((place, None)).chain(cuts)
}

/// What was found under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named<T> {
    /// The one that is meant.
    One(T),
    /// Several that could be meant, with the names they go by.
    Several(Vec<(String, T)>),
    /// None; the nearest names there are, the nearest first, at most [`OFFERED_MAX`].
    None(Vec<String>),
}

/// Names that are offered where none fits.
pub const OFFERED_MAX: usize = 3;

/// Finds who goes by a name: exactly, in whatever case and with or without a leading `#`; else
/// by the only beginning that fits.
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

/// A name as it is compared.
fn fold(name: &str) -> String {
    name.trim().trim_start_matches('#').to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}
