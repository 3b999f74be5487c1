//! Scenarios that each test one behaviour in the form of a chat, with the built host, a real library and a
//! scripted platform.

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
