//! The pipeline as a whole, over a platform in memory: a real store, the real
//! dispatcher and lanes, no library and no socket. Each test reads as a chat.

mod access;
mod answers;
mod asks;
mod between;
mod busy;
mod bypass;
mod commands;
mod conversation;
mod deliver;
mod delivery;
mod doubts;
mod edits;
mod fetching;
mod files;
mod handoff;
mod handoff_meets;
mod handoff_places;
mod lateness;
mod listing;
mod menus;
mod observing;
mod pairing;
mod reactions;
mod resets;
mod rest;
mod restart;
mod scope;
mod sessions;
mod streaming;
mod targets;
mod tasks;
mod terminal;
mod tools;
mod wakes;
mod world;
