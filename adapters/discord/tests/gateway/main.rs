//! Tests of gateway events, and of sessions whose connections end.

#![forbid(unsafe_code)]

mod commands;
mod handoffs;
mod hostile;
mod members;
mod patience;
mod proxy;
mod sending;
mod sessions;
mod shards;
mod stage;
