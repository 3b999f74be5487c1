//! Tests of the SDK from both sides: adapters written as an author writes them, driven
//! through the vtables as the host drives them.

#![forbid(unsafe_code)]

mod adapters;
mod config;
mod documents;
mod ends;
mod host;
mod logs;
mod manifest;
mod panics;
mod threads;
