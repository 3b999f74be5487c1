//! `manifest!`: a table of the keys and the kinds of their values.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::quote;
use syn::{Error, Result};

/// The kind of a key's value.
enum Kind {
    Bool,
    Number,
    Text,
    /// One of these words, as an identifier or a string.
    Word(&'static [&'static str]),
    /// Any word; the listed ones are known and appear in error messages.
    OpenWord,
    Texts,
    Object(&'static [(&'static str, Kind)]),
    Objects(&'static [(&'static str, Kind)]),
}

/// Keys that describe the plugin.
const MANIFEST: &[(&str, Kind)] = &[
    ("id", Kind::Text),
    ("label", Kind::Text),
    ("version", Kind::Text),
    ("license", Kind::Text),
    ("requires_host", Kind::Text),
    ("transport", Kind::OpenWord),
    ("env", Kind::Objects(ENV)),
    ("secrets", Kind::Texts),
    ("uses", Kind::Texts),
    ("listens", Kind::Texts),
    ("connects", Kind::Texts),
    ("replay", Kind::Word(&["offset", "resume", "none"])),
    ("platform_hint", Kind::Text),
    ("home_channel_help", Kind::Text),
];

const ENV: &[(&str, Kind)] =
    &[("name", Kind::Text), ("key", Kind::Text), ("enables", Kind::Bool), ("retired_for", Kind::Text)];

/// Keys that describe capabilities without a method of their own.
const CAPABILITIES: &[(&str, Kind)] = &[
    ("supports_async_delivery", Kind::Bool),
    ("buttons", Kind::Bool),
    ("threads", Kind::Bool),
    (
        "media",
        Kind::Object(&[
            ("in", Kind::Bool),
            ("out", Kind::Bool),
            ("albums", Kind::Bool),
            ("in_bytes_max", Kind::Number),
            ("out_bytes_max", Kind::Number),
            ("caption_limit", Kind::Number),
        ]),
    ),
    ("voice", Kind::Bool),
    (
        "text",
        Kind::Object(&[
            ("limit", Kind::Number),
            ("unit", Kind::Word(&["utf16", "scalars", "bytes", "graphemes"])),
            ("dialect", Kind::OpenWord),
        ]),
    ),
    ("stream", Kind::Word(&["none", "edit", "native"])),
    ("delivery", Kind::Word(&["idempotent", "reconcilable", "at_least_once"])),
    ("authorizes_upstream", Kind::Bool),
    ("interactive_resume", Kind::Bool),
    ("command_prefix", Kind::Text),
    ("liveness", Kind::Object(&[("interval_s", Kind::Number)])),
    ("parallel_connections", Kind::Bool),
    ("group_default", Kind::Word(&["addressed", "all"])),
];

/// Capabilities that `export_adapter!` declares, each with its trait.
const FROM_TRAITS: &[(&str, &str)] = &[
    ("create_handoff_thread", "HandoffThread"),
    ("rename_thread", "RenameThread"),
    ("edit", "Edit"),
    ("delete", "Delete"),
    ("typing", "Typing"),
    ("reactions", "React"),
    ("drafts", "Draft"),
    ("commands_menu", "CommandsMenu"),
    ("render", "Render"),
    ("resolve_target", "ResolveTarget"),
    ("chat_info", "ChatInfo"),
    ("fetch", "Fetch"),
    ("lookup", "Reconcile"),
];

pub fn expand(input: TokenStream) -> Result<TokenStream> {
    let private = quote!(::hermes_adapter_sdk::__private);
    let mut id = None;
    let mut label = None;
    let mut version = quote!(::core::env!("CARGO_PKG_VERSION"));
    let mut license = quote!(#private::or_empty(::core::option_env!("CARGO_PKG_LICENSE")));
    let mut properties = Vec::new();
    let mut capabilities = Vec::new();

    for entry in entries(input)? {
        let word = entry.key.to_string();
        if let Some((_, from)) = FROM_TRAITS.iter().find(|(name, _)| *name == word) {
            let sentence = format!("`{word}` is set by `export_adapter!(… : {from})`; remove it here");
            return Err(Error::new(entry.key.span(), sentence));
        }
        match word.as_str() {
            "id" => {
                check_id(&entry.value)?;
                id = Some(entry.value);
            }
            "label" => label = Some(entry.value),
            "version" => version = entry.value,
            "license" => license = entry.value,
            _ => {
                let (kind, list) = match (lookup(MANIFEST, &word), lookup(CAPABILITIES, &word)) {
                    (Some(kind), _) => (kind, &mut properties),
                    (None, Some(kind)) => (kind, &mut capabilities),
                    (None, None) => return Err(unknown(&entry.key, &[MANIFEST, CAPABILITIES])),
                };
                let value = value(kind, entry.value, entry.key.span())?;
                list.push(quote!((#word, #value)));
            }
        }
    }

    let missing = |what: &str| Error::new(Span::call_site(), format!("`{what}` is missing"));
    let id = id.ok_or_else(|| missing("id"))?;
    let label = label.ok_or_else(|| missing("label"))?;
    Ok(quote! {
        #private::manifest(
            #id,
            #label,
            #version,
            #license,
            &[#(#properties),*],
            &[#(#capabilities),*],
        )
    })
}

struct Entry {
    key: Ident,
    value: TokenStream,
}

/// Splits `key: tokens, key: tokens` at commas outside of brackets.
fn entries(input: TokenStream) -> Result<Vec<Entry>> {
    let mut found: Vec<Entry> = Vec::new();
    let mut tokens = input.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let TokenTree::Ident(key) = token else {
            return Err(Error::new(token.span(), "expected a key, like `key: value`"));
        };
        match tokens.next() {
            Some(TokenTree::Punct(colon)) if colon.as_char() == ':' => {}
            _ => return Err(Error::new(key.span(), format!("`{key}` requires a value: `{key}: …`"))),
        }
        let mut value = TokenStream::new();
        for token in tokens.by_ref() {
            match token {
                TokenTree::Punct(comma) if comma.as_char() == ',' => break,
                other => value.extend([other]),
            }
        }
        if value.is_empty() {
            return Err(Error::new(key.span(), format!("`{key}` requires a value: `{key}: …`")));
        }
        if found.iter().any(|entry| entry.key == key) {
            return Err(Error::new(key.span(), format!("duplicate key `{key}`")));
        }
        found.push(Entry { key, value });
    }
    Ok(found)
}

fn value(kind: &Kind, tokens: TokenStream, span: Span) -> Result<TokenStream> {
    let private = quote!(::hermes_adapter_sdk::__private);
    Ok(match kind {
        Kind::Bool => quote!(#private::Value::Bool(#tokens)),
        Kind::Number => quote!(#private::Value::Number(#tokens)),
        Kind::Text => quote!(#private::Value::Text(#tokens)),
        Kind::OpenWord => {
            let word = word(&tokens).map_or(tokens, |word| quote!(#word));
            quote!(#private::Value::Text(#word))
        }
        Kind::Word(words) => {
            let word = word(&tokens)
                .filter(|word| words.contains(&word.as_str()))
                .ok_or_else(|| Error::new(span, format!("expected one of: {}", words.join(", "))))?;
            quote!(#private::Value::Text(#word))
        }
        Kind::Texts => {
            let list = group(tokens, Delimiter::Bracket, span, "a list of strings, `[…]`")?.stream();
            let items = commas(list);
            quote!(#private::Value::List(&[#(#private::Value::Text(#items)),*]))
        }
        Kind::Object(keys) => object(keys, tokens, span)?,
        Kind::Objects(keys) => {
            let list = group(tokens, Delimiter::Bracket, span, "a list of objects, `[{ … }]`")?.stream();
            let items =
                commas(list).into_iter().map(|item| object(keys, item, span)).collect::<Result<Vec<TokenStream>>>()?;
            quote!(#private::Value::List(&[#(#items),*]))
        }
    })
}

fn object(keys: &'static [(&'static str, Kind)], tokens: TokenStream, span: Span) -> Result<TokenStream> {
    let private = quote!(::hermes_adapter_sdk::__private);
    let mut fields = Vec::new();
    for entry in entries(group(tokens, Delimiter::Brace, span, "an object, `{ … }`")?.stream())? {
        let word = entry.key.to_string();
        let kind = lookup(keys, &word).ok_or_else(|| unknown(&entry.key, &[keys]))?;
        let value = value(kind, entry.value, entry.key.span())?;
        fields.push(quote!((#word, #value)));
    }
    Ok(quote!(#private::Value::Object(&[#(#fields),*])))
}

/// Returns the word of a single identifier or string literal.
fn word(tokens: &TokenStream) -> Option<String> {
    let mut tokens = tokens.clone().into_iter();
    let word = match tokens.next()? {
        TokenTree::Ident(ident) => ident.to_string(),
        TokenTree::Literal(literal) => syn::parse2::<syn::LitStr>(TokenTree::Literal(literal).into()).ok()?.value(),
        _ => return None,
    };
    tokens.next().is_none().then_some(word)
}

fn group(tokens: TokenStream, delimiter: Delimiter, span: Span, expected: &str) -> Result<Group> {
    let mut tokens = tokens.into_iter();
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Group(group)), None) if group.delimiter() == delimiter => Ok(group),
        _ => Err(Error::new(span, format!("{expected} is expected"))),
    }
}

/// Splits at commas outside of brackets.
fn commas(list: TokenStream) -> Vec<TokenStream> {
    let mut items = vec![TokenStream::new()];
    for token in list {
        match token {
            TokenTree::Punct(comma) if comma.as_char() == ',' => items.push(TokenStream::new()),
            other => items.last_mut().expect("there is at least one item").extend([other]),
        }
    }
    items.retain(|item| !item.is_empty());
    items
}

fn lookup<'t>(keys: &'t [(&'static str, Kind)], word: &str) -> Option<&'t Kind> {
    keys.iter().find(|(key, _)| *key == word).map(|(_, kind)| kind)
}

fn unknown(key: &Ident, tables: &[&[(&'static str, Kind)]]) -> Error {
    let known: Vec<&str> = tables.iter().flat_map(|table| table.iter().map(|(key, _)| *key)).collect();
    Error::new(key.span(), format!("unknown key `{key}`; valid keys are {}", known.join(", ")))
}

/// Checks that an id is a string literal with `[a-z][a-z0-9_]*` of at most 32 characters.
fn check_id(tokens: &TokenStream) -> Result<()> {
    let literal: syn::LitStr = syn::parse2(tokens.clone())?;
    let id = literal.value();
    let fits = id.len() <= 32
        && id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if fits {
        return Ok(());
    }
    Err(Error::new(literal.span(), "an id must match `[a-z][a-z0-9_]*` and have at most 32 characters"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(input: TokenStream) -> String {
        expand(input).expect_err("it must not compile").to_string()
    }

    #[test]
    fn an_unknown_key_names_the_known_ones() {
        let error = error_of(quote!(id: "x", label: "X", trasport: none));
        assert!(error.starts_with("unknown key `trasport`; valid keys are id, label"), "{error}");
        let nested = error_of(quote!(id: "x", label: "X", text: { limits: 1 }));
        assert_eq!(nested, "unknown key `limits`; valid keys are limit, unit, dialect");
    }

    #[test]
    fn a_capability_with_a_trait_is_sent_to_export_adapter() {
        let error = error_of(quote!(id: "x", label: "X", edit: true));
        assert_eq!(error, "`edit` is set by `export_adapter!(… : Edit)`; remove it here");
    }

    #[test]
    fn a_word_outside_of_its_set_is_refused_and_an_open_one_is_not() {
        let error = error_of(quote!(id: "x", label: "X", delivery: twice));
        assert_eq!(error, "expected one of: idempotent, reconcilable, at_least_once");
        assert!(expand(quote!(id: "x", label: "X", text: { dialect: my_own }, transport: "carrier-pigeon")).is_ok());
    }

    #[test]
    fn an_id_has_a_narrow_alphabet_and_is_needed() {
        assert!(error_of(quote!(id: "My-Chat", label: "X")).starts_with("an id must"));
        assert_eq!(error_of(quote!(label: "X")), "`id` is missing");
        assert_eq!(error_of(quote!(id: "x")), "`label` is missing");
    }

    #[test]
    fn keys_without_values_and_twice_the_same_key_are_refused() {
        assert_eq!(error_of(quote!(id: "x", id: "y", label: "X")), "duplicate key `id`");
        assert_eq!(error_of(quote!(id: "x", label:)), "`label` requires a value: `label: …`");
        assert_eq!(error_of(quote!(id: "x", label: "X", text: 7)), "an object, `{ … }` is expected");
    }
}
