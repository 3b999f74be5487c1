//! Errors of the store.

use std::path::{Path, PathBuf};

use hermes_core::ids::DeliveryId;
use rusqlite::ErrorCode;

/// Error of a request to the store. All callers of a failed commit get a clone.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A row was not in the expected state; nothing was changed. A bug of the host.
    #[error("{what} is not in the state that this change requires")]
    Conflict {
        /// The row.
        what: String,
    },
    /// The operator retries a delivery whose question is closed, so no caller waits for the answer.
    #[error(
        "delivery {delivery} contains a question that is closed, so it is not sent again; an open need is asked in a \
         new question"
    )]
    QuestionOver {
        /// The delivery.
        delivery: DeliveryId,
    },
    /// The user chose the title of another session.
    #[error("another session is already named {title:?}; choose another title")]
    TitleTaken {
        /// The title.
        title: String,
    },
    /// The user chose a title that is too long.
    #[error("the title is longer than {chars_max} characters; choose a shorter one")]
    TitleTooLong {
        /// Limit in characters.
        chars_max: usize,
    },
    /// The adapter stores more values than it may.
    #[error("the limit of {max} {what} is reached; delete some first")]
    TooMany {
        /// Kind of the stored values.
        what: String,
        /// Limit.
        max: u32,
    },
    /// The author of an adapter: it keeps more bytes than it may.
    #[error("the {what} would exceed {} MiB; delete some first", bytes_max >> 20)]
    TooLarge {
        /// The values that are too large together.
        what: String,
        /// The bound, in bytes.
        bytes_max: u64,
    },
    /// The row does not exist.
    #[error("there is no {what}")]
    Missing {
        /// The row.
        what: String,
    },
    /// The disk is full. The request was not stored; later ones are tried again.
    #[error("the disk of {path:?} is full; free some space, then the host continues automatically")]
    DiskFull {
        /// The database.
        path: PathBuf,
    },
    /// The disk or its file system failed.
    #[error("the disk of {path:?} fails ({detail}); check the disk, the host keeps retrying")]
    Disk {
        /// The database.
        path: PathBuf,
        /// Error of the operating system.
        detail: String,
    },
    /// A file of the database was deleted or replaced while the host runs.
    #[error(
        "{path:?} was deleted or replaced while the host is running; move it back, or restart the host to use the \
         current files"
    )]
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// The database file is empty.
    #[error(
        "{path:?} is empty (0 bytes), so its content is lost; restore a copy, the newest is {copy}, or remove the \
         file to start with a new database"
    )]
    Empty {
        /// The database.
        path: PathBuf,
        /// Newest copy made before a migration, or a text for none.
        copy: String,
    },
    /// Another process has locked the database.
    #[error("another process has locked {path:?}; end the process that opened it")]
    Busy {
        /// The database.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("{path:?} is damaged ({detail}); move it away and restore a copy, the newest is {copy}")]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// Finding of the check.
        detail: String,
        /// Newest copy made before a migration, or a text for none.
        copy: String,
    },
    /// A newer hermes-host wrote the file.
    #[error(
        "{path:?} has schema {found}, but this hermes-host supports {known}; run the newer version, or restore the \
         copy {copy}"
    )]
    NewerSchema {
        /// The database.
        path: PathBuf,
        /// Schema version of the file.
        found: u32,
        /// Newest schema version of this program.
        known: u32,
        /// Copy made before that migration, or a text for none.
        copy: String,
    },
    /// The file belongs to another program.
    #[error("{path:?} is a database of another program; choose another home folder")]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// The file cannot be opened.
    #[error("cannot open {path:?} ({detail}); check the folder and its owner")]
    Open {
        /// The database.
        path: PathBuf,
        /// Error of SQLite or the operating system.
        detail: String,
    },
    /// A migration failed; the file is unchanged.
    #[error("cannot migrate {path:?} to schema {to} ({detail}); nothing was changed")]
    Migration {
        /// The database.
        path: PathBuf,
        /// Target schema version.
        to: u32,
        /// Cause of the failure.
        detail: String,
    },
    /// The store is closed, because the host stops.
    #[error("the store is closed")]
    Closed,
    /// The statement or the stored value is invalid. A bug of the host.
    #[error("the store rejected a request ({detail}); this is a bug of hermes-host, please report it")]
    Internal {
        /// Error of SQLite.
        detail: String,
    },
}

/// An error within a transaction, before its conversion to a [`StoreError`].
#[derive(Debug)]
pub(super) enum Fault {
    /// Error of SQLite.
    Sql(rusqlite::Error),
    /// A stored value could not be converted to or from JSON.
    Json(serde_json::Error),
    /// A violated rule of the store.
    Rule(StoreError),
}

impl Fault {
    /// Creates the error for a row that is not in the expected state.
    pub(super) fn conflict(what: impl std::fmt::Display) -> Self {
        Self::Rule(StoreError::Conflict { what: what.to_string() })
    }

    /// Creates the error for a missing row.
    pub(super) fn missing(what: impl std::fmt::Display) -> Self {
        Self::Rule(StoreError::Missing { what: what.to_string() })
    }

    /// Creates the error for a stored value that no version of this program writes.
    pub(super) fn unreadable(what: impl std::fmt::Display) -> Self {
        Self::Rule(StoreError::Internal { detail: format!("unreadable {what}") })
    }

    /// Returns true if a `UNIQUE` constraint refused a row.
    pub(super) fn is_unique_violation(error: &rusqlite::Error) -> bool {
        use rusqlite::ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE};
        matches!(error, rusqlite::Error::SqliteFailure(code, _)
            if code.extended_code == SQLITE_CONSTRAINT_UNIQUE || code.extended_code == SQLITE_CONSTRAINT_PRIMARYKEY)
    }

    /// Returns true if a stored value is damaged, so that only its row is unreadable.
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

    /// Converts the fault to an error of the database at `path`.
    pub(super) fn explain(self, path: &Path) -> StoreError {
        match self {
            Self::Rule(error) => error,
            Self::Json(error) => StoreError::Internal { detail: error.to_string() },
            Self::Sql(error) => StoreError::of_sqlite(&error, path),
        }
    }
}

impl StoreError {
    /// Converts an error of SQLite to an error of the database at `path`.
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

    /// Returns true if the disk, the file or another process is the cause, so that no request can be stored
    /// until the operator has intervened.
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
