//! Why the store could not do what it was asked.

use std::path::PathBuf;

/// Why a request to the store failed. Cloned to every caller of a failed commit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Us: a row was not in the state that the request named; nothing was changed.
    #[error("{what} is not in the state this change starts from")]
    Conflict {
        /// The row.
        what: String,
    },
    /// The user: another session has this title.
    #[error("another session is already called {title:?}; choose another title")]
    TitleTaken {
        /// The title.
        title: String,
    },
    /// Us or the user: there is no such row.
    #[error("there is no {what}")]
    Missing {
        /// The row.
        what: String,
    },
    /// The operator: the disk is full; the request was not written, later ones are tried again.
    #[error("the disk under {path:?} is full; free some space, the host goes on by itself")]
    DiskFull {
        /// The database.
        path: PathBuf,
    },
    /// The operator: the disk or its file system fails.
    #[error("the disk under {path:?} fails ({detail}); check it, the host keeps trying")]
    Disk {
        /// The database.
        path: PathBuf,
        /// What the operating system said.
        detail: String,
    },
    /// The operator: another process holds the database.
    #[error("another process holds {path:?}; end whatever opened it besides hermes-host")]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// The operator: the file is damaged.
    #[error("{path:?} is damaged ({detail}); move it away and put a copy back, the newest is {copy}")]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What the check found.
        detail: String,
        /// The newest copy made before a migration, or words that there is none.
        copy: String,
    },
    /// The operator: a newer hermes-host wrote the file.
    #[error(
        "{path:?} has schema {found}, this hermes-host knows {known}; run the newer version, or put back the copy {copy}"
    )]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: u32,
        /// The newest this program knows.
        known: u32,
        /// The copy made before that migration, or words that there is none.
        copy: String,
    },
    /// The operator: the file belongs to another program.
    #[error("{path:?} is a database of another program; choose another home folder")]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// The operator: the file cannot be opened.
    #[error("cannot open {path:?} ({detail}); check the folder and its owner")]
    Open {
        /// The database.
        path: PathBuf,
        /// What SQLite or the operating system said.
        detail: String,
    },
    /// The operator: a migration failed; the file is as it was before.
    #[error("cannot bring {path:?} to schema {to} ({detail}); nothing was changed")]
    Migration {
        /// The database.
        path: PathBuf,
        /// The schema it was to get.
        to: u32,
        /// What failed.
        detail: String,
    },
    /// Nobody: the store is closed, because the host stops.
    #[error("the store is closed")]
    Closed,
    /// Us: the statement or the stored value is wrong.
    #[error("the store refused a request ({detail}); this is a fault of hermes-host")]
    Internal {
        /// What SQLite said.
        detail: String,
    },
}
