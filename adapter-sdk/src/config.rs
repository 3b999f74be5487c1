//! The requirements on an adapter's configuration.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// A configuration: parsed strictly from JSON, with a schema that the host shows and
/// checks. Derive it with `#[derive(AdapterConfig)]`, also for nested types.
pub trait AdapterConfig: DeserializeOwned + JsonSchema + Send + 'static {}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> AdapterConfig for T {}
