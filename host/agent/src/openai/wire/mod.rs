//! The wire format: streams of answers as endpoints really send them, and histories as they accept them.
//!
//! Everything here is pure: bytes and values in, answers and messages out. Endpoints that call themselves compatible
//! differ in every detail, so reading is lenient: only an error ends an answer, anything else that is not a piece of
//! one is skipped and counted. Writing is strict: what is sent is valid for the strictest endpoint known.
//!
//! * [`decode`]: compressed bodies.
//! * [`stream`]: the events of a body.
//! * [`json`]: JSON with the faults that servers make.
//! * [`answer`]: the answer so far.
//! * [`calls`]: the tool calls of an answer.
//! * [`thoughts`]: reasoning that was left in the text.
//! * [`history`]: the messages of a request.
//!
//! Recorded shapes of answers, with what has to be read from them, are in `tests/openai/shapes`.

pub(super) mod answer;
pub(super) mod calls;
pub(super) mod decode;
pub(super) mod history;
pub(crate) mod json;
pub(super) mod stream;
pub(super) mod thoughts;
