//! Titles of sessions: cleaned, unique per owner, numbered if they repeat.
//!
//! If the host chooses a title that is taken, it becomes `title #2`, `title #3` …; if a person chooses it, the
//! request fails. The plain title refers to the newest of its variants.

use std::collections::BTreeMap;

use hermes_core::ids::SessionId;
use rusqlite::{Connection, params};

use super::error::{Fault, StoreError};
use super::sql::{collect, first, text};
use super::writer::Outcome;
use super::{Resolved, Result, SessionRow, Store, search, sessions};

/// Longest title of a session, in characters.
pub(super) const TITLE_CHARS_MAX: usize = 100;
/// Sessions listed for an ambiguous name.
const AMBIGUOUS_MAX: u32 = 10;
/// Numbered variants of a title that are searched.
const VARIANTS_MAX: u32 = 1_000;
/// Separator before the number of a variant.
const NUMBER: &str = " #";

impl Store {
    /// Finds a session by its id, its title (of `title #2`, `title #3` … the newest), or an unambiguous prefix
    /// of its id. `owner` restricts the search to that owner's sessions.
    ///
    /// # Errors
    ///
    /// The error of the disk.
    pub async fn resolve_session(&self, name: &str, owner: Option<&str>) -> Result<Resolved> {
        let (name, owner) = (name.trim().to_owned(), owner.map(str::to_owned));
        self.read(move |db| resolve(db, &name, owner.as_deref())).await
    }

    /// Checks the length of a title. Only a transaction can check that it is free.
    ///
    /// # Errors
    ///
    /// [`StoreError::TitleTooLong`].
    pub fn check_title(title: &str) -> Result<()> {
        match title.trim().chars().count() {
            0..=TITLE_CHARS_MAX => Ok(()),
            _ => Err(StoreError::TitleTooLong { chars_max: TITLE_CHARS_MAX }),
        }
    }

    /// Sets the title of a session; `None` removes it.
    ///
    /// # Errors
    ///
    /// [`StoreError::TitleTaken`], [`StoreError::TitleTooLong`], [`StoreError::Missing`].
    pub async fn session_rename(&self, id: &SessionId, title: Option<&str>) -> Result<()> {
        let (id, title) = (id.clone(), title.map(str::to_owned));
        self.write(move |db| rename(db, &id, title.as_deref())).await
    }

    /// Sets the title of a session, with the next number if the owner already has the title. Returns the stored
    /// title.
    ///
    /// # Errors
    ///
    /// [`StoreError::TitleTooLong`], [`StoreError::Missing`].
    pub async fn session_rename_numbered(&self, id: &SessionId, title: &str) -> Result<String> {
        let (id, title) = (id.clone(), title.to_owned());
        self.write(move |db| rename_numbered(db, &id, &title)).await
    }

    /// Sets the title of a session without one, derived from `words`. Returns true if it had none.
    ///
    /// # Errors
    ///
    /// The commit failed.
    pub async fn session_name_after(&self, id: &SessionId, words: &str) -> Result<bool> {
        let (id, words) = (id.clone(), words.to_owned());
        self.write(move |db| name_after(db, &id, &words)).await
    }
}

pub(super) fn rename(db: &Connection, id: &SessionId, title: Option<&str>) -> Outcome<()> {
    let title = title.map(clean_title).transpose()?.flatten();
    let sql = "UPDATE sessions SET title = ?2 WHERE id = ?1";
    let renamed = sessions::change_session(db, id, sql, params![id.0, title]);
    match (renamed, title) {
        (Err(Fault::Sql(error)), Some(title)) if Fault::is_unique_violation(&error) => {
            Err(StoreError::TitleTaken { title }.into())
        }
        (renamed, _) => renamed,
    }
}

fn rename_numbered(db: &Connection, id: &SessionId, title: &str) -> Outcome<String> {
    let Some(session) = sessions::one(db, &id.0)? else { return Err(Fault::missing(sessions::name(id))) };
    let Some(wanted) = clean_title(title)? else { return Ok(session.title.unwrap_or_default()) };
    // The session's own title, in any case, does not count as taken.
    let own = session.title.as_ref().is_some_and(|title| title.eq_ignore_ascii_case(&wanted));
    let title = match own {
        true => wanted,
        false => free_title(db, &session.profile, session.owner.as_deref(), &wanted)?,
    };
    rename(db, id, Some(&title))?;
    Ok(title)
}

fn name_after(db: &Connection, id: &SessionId, words: &str) -> Outcome<bool> {
    let Some(session) = sessions::one(db, &id.0)? else { return Err(Fault::missing(sessions::name(id))) };
    let Some(wanted) = clean_title(words)?.filter(|_| session.title.is_none()) else { return Ok(false) };
    let title = free_title(db, &session.profile, session.owner.as_deref(), &wanted)?;
    rename(db, id, Some(&title))?;
    Ok(true)
}

/// Returns `wanted`, or its next numbered variant if the owner already has that title.
pub(super) fn free_title(db: &Connection, profile: &str, owner: Option<&str>, wanted: &str) -> Outcome<String> {
    let base = base(wanted);
    let alike = db.prepare_cached(
        "SELECT title FROM sessions
         WHERE profile = ?1 AND COALESCE(owner, '') = ?2
             AND (title = ?3 COLLATE NOCASE OR title = ?4 COLLATE NOCASE OR title LIKE ?5 ESCAPE '\\')
         LIMIT ?6",
    )?;
    let pattern = format!("{}{NUMBER}%", search::escape_like(base));
    let values = params![profile, owner.unwrap_or_default(), wanted, base, pattern, VARIANTS_MAX];
    let taken = collect(alike, values, |row| Ok(text(row, 0)?.to_owned()))?;
    // SQLite's NOCASE ignores case for ASCII only, and so must this comparison.
    if !taken.iter().any(|title| title.eq_ignore_ascii_case(wanted)) {
        return Ok(wanted.to_owned());
    }
    let next = taken.iter().map(|title| number(title).unwrap_or(1)).max().unwrap_or(1).saturating_add(1);
    let suffix = format!("{NUMBER}{next}");
    let room = TITLE_CHARS_MAX.saturating_sub(suffix.chars().count());
    let base: String = base.chars().take(room).collect();
    Ok(format!("{}{suffix}", base.trim_end()))
}

/// Returns a title without the number of its variant.
fn base(title: &str) -> &str {
    match (title.rsplit_once(NUMBER), number(title)) {
        (Some((base, _)), Some(_)) if !base.is_empty() => base,
        _ => title,
    }
}

/// Returns the number of a variant.
fn number(title: &str) -> Option<u64> {
    title.rsplit_once(NUMBER)?.1.parse().ok()
}

/// Returns a title in its stored form, without invisible characters and with single spaces, or `None` if it is
/// empty.
pub(super) fn clean_title(title: &str) -> Outcome<Option<String>> {
    let invisible = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
    };
    let visible: String = title.chars().filter(|c| c.is_whitespace() || !invisible(*c)).collect();
    let words: Vec<&str> = visible.split_whitespace().collect();
    let title = words.join(" ");
    if title.chars().count() > TITLE_CHARS_MAX {
        return Err(StoreError::TitleTooLong { chars_max: TITLE_CHARS_MAX }.into());
    }
    Ok((!title.is_empty()).then_some(title))
}

fn resolve(db: &Connection, name: &str, owner: Option<&str>) -> Outcome<Resolved> {
    if name.is_empty() {
        return Ok(Resolved::Unknown);
    }
    let theirs = |session: &SessionRow| owner.is_none() || session.owner.as_deref() == owner;
    if let Some(session) = sessions::one(db, name)?.filter(theirs) {
        return Ok(Resolved::Found(Box::new(session)));
    }
    let mut ids = titled(db, name, owner)?;
    if ids.is_empty() {
        let beginning = db.prepare_cached(
            "SELECT id FROM sessions WHERE id >= ?1 AND id < ?2 AND (?3 IS NULL OR owner = ?3)
             ORDER BY id DESC LIMIT ?4",
        )?;
        // No id contains a character that sorts after this one.
        let end = format!("{name}\u{10ffff}");
        ids = collect(beginning, params![name, end, owner, AMBIGUOUS_MAX], |row| Ok(SessionId(row.get(0)?)))?;
    }
    match ids.as_slice() {
        [] => Ok(Resolved::Unknown),
        [only] => {
            Ok(sessions::one(db, &only.0)?.map_or(Resolved::Unknown, |session| Resolved::Found(Box::new(session))))
        }
        _ => Ok(Resolved::Ambiguous(ids)),
    }
}

/// Returns, for each owner, the newest numbered variant of a title, or the title itself.
fn titled(db: &Connection, title: &str, owner: Option<&str>) -> Outcome<Vec<SessionId>> {
    let variants = db.prepare_cached(
        "SELECT id, COALESCE(owner, ''), title FROM sessions
         WHERE (title = ?1 COLLATE NOCASE OR title LIKE ?2 ESCAPE '\\') AND (?3 IS NULL OR owner = ?3)
         ORDER BY started_ms DESC LIMIT ?4",
    )?;
    let pattern = format!("{}{NUMBER}%", search::escape_like(title));
    let mut newest: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let found = collect(variants, params![title, pattern, owner, VARIANTS_MAX], |row| {
        let found = text(row, 2)?;
        let rank = if found.eq_ignore_ascii_case(title) { Some(0) } else { number(found) };
        Ok((row.get::<_, String>(1)?, rank, row.get::<_, String>(0)?))
    })?;
    for (owner, rank, id) in found {
        let Some(rank) = rank else { continue };
        let best = newest.entry(owner).or_default();
        *best = std::mem::take(best).max((rank, id));
    }
    Ok(newest.into_values().map(|(_, id)| SessionId(id)).collect())
}

/// Returns the title of a session.
pub(super) fn title_of(db: &Connection, id: &SessionId) -> Outcome<Option<String>> {
    let title = db.prepare_cached("SELECT title FROM sessions WHERE id = ?1")?;
    Ok(first(title, [&id.0], |row| Ok(row.get(0)?))?.flatten())
}
