//! The requests of operators and their answers, as the control socket and the command line exchange them.
//!
//! [`words`] are the requests and replies, [`status`] is the report about the host, [`records`] and [`tasks`] describe
//! sessions, deliveries and tasks, and [`rights`] decides what a caller may request. A new field is optional, because a
//! client of an older release reads these words, too.

pub mod records;
pub mod rights;
pub mod status;
pub mod tasks;
pub mod words;

pub use rights::{Caller, Identity};
pub use status::*;
pub use tasks::{TaskEventInfo, TaskInfo};
pub use words::*;
