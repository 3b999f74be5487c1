//! Tests with a simulated Slack: its calls, its files and its socket.

#![forbid(unsafe_code)]

mod deliveries;
mod patience;
#[path = "../../../discord/tests/gateway/proxy.rs"]
mod proxy;
mod requests;
mod sockets;
mod stage;
mod statuses;
mod uploads;
