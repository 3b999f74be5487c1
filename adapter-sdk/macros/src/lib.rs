//! The two procedural macros of the adapter SDK: `manifest!` and
//! `#[derive(AdapterConfig)]`.
//!
//! Both refer to everything through `::hermes_adapter_sdk::__private`, so that an
//! author needs no other dependency. `export_adapter!` is not here: it is a
//! `macro_rules!` of the SDK.

#![forbid(unsafe_code)]

mod config;
mod manifest;

use proc_macro::TokenStream;

/// Makes an adapter's `MANIFEST` of its properties. Keys are those of
/// `hermes_protocol::Manifest` and `Capabilities`; a key that is not known, or a
/// value of the wrong kind, does not compile, and the error lists what does. Only
/// `id` and `label` are required; `version` is the crate's.
///
/// ```text
/// manifest! {
///     id: "line_chat",
///     label: "Line chat",
///     transport: "tcp",
///     secrets: ["password"],
///     env: [{ name: "LINE_CHAT_PASSWORD", key: "password", enables: true }],
///     text: { limit: 400, unit: bytes, dialect: plain },
///     delivery: at_least_once,
/// }
/// ```
#[proc_macro]
pub fn manifest(input: TokenStream) -> TokenStream {
    manifest::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct or enum usable as an adapter's configuration: it is read
/// strictly (a key it does not know is an error) and has a JSON Schema, in which
/// doc comments are descriptions. Honours `#[serde(…)]` and `#[schemars(…)]`.
#[proc_macro_derive(AdapterConfig, attributes(serde, schemars))]
pub fn adapter_config(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    config::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
