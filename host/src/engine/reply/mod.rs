//! Replies: from text to the parts of a delivery.
//!
//! [`render`] converts markdown into parts that an adapter can send unchanged, [`forward`] sends an answer to another
//! chat than the origin of its event, and [`transcript_copy`] adds messages of the host to transcripts.

pub mod forward;
pub mod render;
pub mod transcript_copy;
