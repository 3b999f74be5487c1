//! Tests of the adapter with a mock host and real sockets.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod calls;
mod client;

use std::time::Duration;

use client::{Answer, address_of, post};
use hermes_adapter_sdk::prelude::*;
use hermes_adapter_sdk::testing::{MockHost, Pending, Setup};
use hermes_adapter_webhook::Webhook;
use serde_json::{Value, json};

const SECRET: &str = "0123456789abcdef";

hermes_adapter_sdk::conformance!(Webhook, { "listen": "127.0.0.1:0", "secret": "0123456789abcdef", "routes": { "ci": {} } });
hermes_adapter_sdk::certify!(Webhook);

/// A running listener and the host behind it.
struct World {
    host: MockHost,
    address: String,
    _run: Pending,
}

impl World {
    /// Starts with these keys of the route `ci`.
    fn new(route: Value) -> Self {
        Self::with(MockHost::setup("webhook"), json!({ "routes": { "ci": route } }))
    }

    fn with(setup: Setup, more: Value) -> Self {
        let mut config = json!({ "listen": "127.0.0.1:0", "secret": SECRET });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let host = setup.start::<Webhook>(config).unwrap();
        host.connect().unwrap();
        let run = host.run();
        let announced = host.next_host_call("announce");
        Self { address: address_of(announced["url"].as_str().unwrap()), host, _run: run }
    }

    /// Calls the route `ci` with a v1 signature and this id.
    fn call(&self, id: &str, body: &str) -> Answer {
        self.signed(id, body, &[])
    }

    fn signed(&self, id: &str, body: &str, more: &[(&str, &str)]) -> Answer {
        let signature = client::v1(SECRET, body);
        let ours = [("x-webhook-signature", &*signature), ("x-request-id", id)];
        post(&self.address, "/webhooks/ci", &[&ours, more].concat(), body)
    }
}
