//! A round trip over the vtables in this process, like the host's calls to an in-process adapter.

use hermes_adapter_sdk::{prelude::*, testing::MockHost};
use serde_json::json;

#[derive(AdapterConfig)]
struct Config {}

/// An adapter that answers every send at once.
struct Instantly;

impl Adapter for Instantly {
    const MANIFEST: Manifest = manifest! { id: "instantly", label: "Instantly" };
    type Config = Config;

    fn new(_: Config, _: Host) -> Self {
        Self
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        Ok(())
    }

    async fn send(&self, _: Outgoing) -> SendOutcome {
        SendOutcome::delivered("1", 0)
    }
}

hermes_adapter_sdk::test_adapter!(Instantly);

/// Returns the connected adapter.
pub fn connected() -> MockHost {
    let host = MockHost::start::<Instantly>(json!({})).expect("it starts");
    host.connect().expect("it connects");
    host
}
