//! What becomes of what the gateway tells, and of sessions whose connections end.

#![forbid(unsafe_code)]

mod commands;
mod handoffs;
mod hostile;
mod patience;
mod sending;
mod sessions;
mod shards;
mod stage;
