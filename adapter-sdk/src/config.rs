//! What an adapter's configuration has to be.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// A configuration: read strictly from JSON, with a schema that the host shows
/// and checks. Derive it: `#[derive(AdapterConfig)]`; nested types too.
pub trait AdapterConfig: DeserializeOwned + JsonSchema + Send + 'static {}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> AdapterConfig for T {}
