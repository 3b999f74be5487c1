//! Tests with a simulated Slack: its calls, its files and its socket.

#![forbid(unsafe_code)]

mod deliveries;
mod patience;
mod requests;
mod sockets;
mod stage;
mod statuses;
mod uploads;
