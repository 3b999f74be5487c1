//! The two procedural macros of the adapter SDK: `manifest!` and
//! `#[derive(AdapterConfig)]`.
//!
//! Both use paths below `::hermes_adapter_sdk::__private`, so that an author needs no other
//! dependency. `export_adapter!` is a `macro_rules!` macro of the SDK.

#![forbid(unsafe_code)]

mod config;
mod manifest;

use proc_macro::TokenStream;

/// Creates an adapter's `MANIFEST` from its properties. The keys are those of
/// `hermes_protocol::Manifest` and `Capabilities`. An unknown key or a value of the wrong
/// kind is a compile error, which lists the valid ones. Only `id` and `label` are required;
/// `version` is the version of the crate.
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

/// Makes a struct or enum usable as an adapter's configuration: it is parsed strictly (an
/// unknown key is an error) and has a JSON Schema with its doc comments as descriptions.
/// Honours `#[serde(…)]` and `#[schemars(…)]`.
#[proc_macro_derive(AdapterConfig, attributes(serde, schemars))]
pub fn adapter_config(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    config::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
