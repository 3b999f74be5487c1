//! Why the store could not do what it was asked.

use std::path::{Path, PathBuf};

use hermes_core::ids::DeliveryId;
use rusqlite::ErrorCode;

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
    /// The operator: what a delivery asked is over; to ask it again would lead to nothing.
    #[error(
        "delivery {delivery} asks a question that is over, and nobody waits for its answer; what still needs one is \
         asked anew by whoever needs it"
    )]
    QuestionOver {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// The user: another session has this title.
    #[error("another session is already called {title:?}; choose another title")]
    TitleTaken {
        /// The title.
        title: String,
    },
    /// The user: the title is too long.
    #[error("a title has at most {chars_max} characters")]
    TitleTooLong {
        /// The bound.
        chars_max: usize,
    },
    /// The author of an adapter: it keeps more than it may.
    #[error("there are {max} {what} already, and no room for another; delete some first")]
    TooMany {
        /// What there is too much of.
        what: String,
        /// The bound.
        max: u32,
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
    /// The operator: a file of the database was deleted or replaced under the running host.
    #[error(
        "{path:?} was deleted or replaced while the host runs; move it back, or restart the host to work with the \
         files that are there"
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// The operator: the database has no bytes.
    #[error(
        "{path:?} is empty (0 bytes), so its content is lost; put a copy back, the newest is {copy}, or remove the file \
         to begin with a new database"
    )]
    Empty {
        /// The database.
        path: PathBuf,
        /// The newest copy made before a migration, or words that there is none.
        copy: String,
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

/// What goes wrong inside a transaction, before it is put into words.
#[derive(Debug)]
pub(super) enum Fault {
    /// SQLite said so.
    Sql(rusqlite::Error),
    /// A stored value could not be written or read as JSON.
    Json(serde_json::Error),
    /// A rule of ours.
    Rule(StoreError),
}

impl Fault {
    /// `what` is not in the state that a change starts from.
    pub(super) fn conflict(what: impl std::fmt::Display) -> Self {
        Self::Rule(StoreError::Conflict { what: what.to_string() })
    }

    /// There is no `what`.
    pub(super) fn missing(what: impl std::fmt::Display) -> Self {
        Self::Rule(StoreError::Missing { what: what.to_string() })
    }

    /// A stored value that no version of this program writes.
    pub(super) fn unreadable(what: impl std::fmt::Display) -> Self {
        Self::Rule(StoreError::Internal { detail: format!("unreadable {what}") })
    }

    /// Whether a `UNIQUE` constraint refused a row.
    pub(super) fn is_unique_violation(error: &rusqlite::Error) -> bool {
        use rusqlite::ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE};
        matches!(error, rusqlite::Error::SqliteFailure(code, _)
            if code.extended_code == SQLITE_CONSTRAINT_UNIQUE || code.extended_code == SQLITE_CONSTRAINT_PRIMARYKEY)
    }

    /// Whether a stored value is damaged, so that its row alone cannot be read.
    pub(super) fn is_of_one_row(&self) -> bool {
        match self {
            Self::Json(_) | Self::Rule(StoreError::Internal { .. }) => true,
            Self::Sql(error) => matches!(
                error,
                rusqlite::Error::FromSqlConversionFailure(..)
                    | rusqlite::Error::InvalidColumnType(..)
                    | rusqlite::Error::IntegralValueOutOfRange(..)
                    | rusqlite::Error::Utf8Error(..)
            ),
            Self::Rule(_) => false,
        }
    }

    /// Says it as a sentence about the database at `path`.
    pub(super) fn explain(self, path: &Path) -> StoreError {
        match self {
            Self::Rule(error) => error,
            Self::Json(error) => StoreError::Internal { detail: error.to_string() },
            Self::Sql(error) => StoreError::of_sqlite(&error, path),
        }
    }
}

impl StoreError {
    /// What SQLite said, as a sentence about the database at `path`.
    pub(super) fn of_sqlite(error: &rusqlite::Error, path: &Path) -> Self {
        let path = path.to_owned();
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull { path },
            Some(ErrorCode::SystemIoFailure | ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
                Self::Disk { path, detail }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                let copy = super::migrate::newest_copy(&path);
                Self::Corrupt { path, detail, copy }
            }
            _ => Self::Internal { detail },
        }
    }

    /// Whether the disk, the file or another process on it is to blame: nothing that is asked can be
    /// written until the operator has mended it.
    pub(super) fn is_of_the_disk(&self) -> bool {
        matches!(
            self,
            Self::DiskFull { .. } | Self::Disk { .. } | Self::Busy { .. } | Self::Corrupt { .. } | Self::Gone { .. }
        )
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Rule(error)
    }
}
