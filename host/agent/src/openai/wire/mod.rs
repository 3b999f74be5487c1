//! The wire format: a lenient parser for answer streams and a strict writer for histories.
//!
//! This module is pure: bytes and values in, answers and messages out. Endpoints that call themselves
//! compatible differ in every detail, so the parser is lenient: only an error ends an answer, and unknown data
//! is skipped and counted. The writer is strict: its output is valid for the strictest known endpoint.
//!
//! * [`decode`]: compressed bodies.
//! * [`stream`]: the events of a body.
//! * [`json`]: JSON with the common errors of servers.
//! * [`answer`]: the answer received so far.
//! * [`calls`]: the tool calls of an answer.
//! * [`reasoning`]: reasoning inside of the text.
//! * [`history`]: the messages of a request.
//! * [`shape`]: the additional demands of an endpoint.
//! * [`fit`]: the reduction of messages to the context window.
//!
//! Recorded answers, with their expected results, are in `tests/openai/shapes`.

pub(super) mod answer;
pub(super) mod calls;
pub(super) mod decode;
pub(super) mod fit;
pub(super) mod history;
pub(crate) mod json;
pub(super) mod reasoning;
pub(super) mod shape;
pub(super) mod stream;
