//! One behaviour each, read as a chat: the built host, the real seam, a scripted platform.

#![forbid(unsafe_code)]

mod access;
mod adapters;
mod asks;
mod author;
mod busy;
mod control;
mod conversation;
mod crashes;
mod delivery;
mod handoff;
mod operator;
mod plugins;
mod replacing;
mod streaming;
mod terminal;
mod unaccepted;
