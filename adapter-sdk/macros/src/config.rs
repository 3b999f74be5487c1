//! `#[derive(AdapterConfig)]`: the derives of serde and schemars on a hidden copy of the
//! item.
//!
//! A derive macro cannot add attributes to its own item, and both derives need an attribute
//! with the path of their crate. Therefore the item is written a second time, inside an
//! unnamed constant, with `#[serde(remote = "…")]`, which makes serde build the author's
//! type directly from the copy.

use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Error, Fields, Result};

pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(&input.generics, "a configuration cannot have type parameters"));
    }
    refuse_flatten(&input.data)?;

    let name = &input.ident;
    let word = name.to_string();
    let copy = copy_of(input);
    let shadow = &copy.ident;
    Ok(quote! {
        #[doc(hidden)]
        const _: () = {
            #[derive(::hermes_adapter_sdk::__private::serde::Deserialize)]
            #[derive(::hermes_adapter_sdk::__private::schemars::JsonSchema)]
            #[serde(crate = "::hermes_adapter_sdk::__private::serde", remote = #word, deny_unknown_fields)]
            #[schemars(crate = "::hermes_adapter_sdk::__private::schemars")]
            #copy

            impl<'de> ::hermes_adapter_sdk::__private::serde::Deserialize<'de> for #name {
                fn deserialize<D>(deserializer: D) -> ::core::result::Result<Self, D::Error>
                where
                    D: ::hermes_adapter_sdk::__private::serde::Deserializer<'de>,
                {
                    #shadow::deserialize(deserializer)
                }
            }

            impl ::hermes_adapter_sdk::__private::schemars::JsonSchema for #name {
                fn schema_name() -> ::std::borrow::Cow<'static, str> {
                    ::std::borrow::Cow::Borrowed(#word)
                }

                fn schema_id() -> ::std::borrow::Cow<'static, str> {
                    ::std::borrow::Cow::Borrowed(::core::concat!(::core::module_path!(), "::", #word))
                }

                fn json_schema(
                    generator: &mut ::hermes_adapter_sdk::__private::schemars::SchemaGenerator,
                ) -> ::hermes_adapter_sdk::__private::schemars::Schema {
                    <#shadow as ::hermes_adapter_sdk::__private::schemars::JsonSchema>::json_schema(generator)
                }
            }
        };
    })
}

/// Returns a copy of the item under another name, with only the attributes that the derives read.
fn copy_of(input: &DeriveInput) -> DeriveInput {
    let mut copy = input.clone();
    copy.ident = format_ident!("__{}AsWritten", input.ident);
    copy.vis = syn::Visibility::Inherited;
    keep_readable(&mut copy.attrs);
    match &mut copy.data {
        Data::Struct(data) => data.fields.iter_mut().for_each(|field| keep_readable(&mut field.attrs)),
        Data::Enum(data) => {
            for variant in &mut data.variants {
                keep_readable(&mut variant.attrs);
                variant.fields.iter_mut().for_each(|field| keep_readable(&mut field.attrs));
            }
        }
        Data::Union(_) => {}
    }
    copy
}

fn keep_readable(attrs: &mut Vec<Attribute>) {
    attrs.retain(|attr| ["doc", "serde", "schemars", "cfg"].iter().any(|word| attr.path().is_ident(word)));
}

/// Rejects `flatten`, with which unknown keys cannot be detected.
fn refuse_flatten(data: &Data) -> Result<()> {
    let fields: Vec<&Fields> = match data {
        Data::Struct(data) => vec![&data.fields],
        Data::Enum(data) => data.variants.iter().map(|variant| &variant.fields).collect(),
        Data::Union(data) => {
            return Err(Error::new_spanned(data.union_token, "a configuration must be a struct or an enum"));
        }
    };
    for field in fields.into_iter().flatten() {
        for attr in field.attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
            let syn::Meta::List(list) = &attr.meta else { continue };
            let mut words = list.tokens.clone().into_iter();
            let flattened = words.any(|word| matches!(word, TokenTree::Ident(word) if word == "flatten"));
            if flattened {
                return Err(Error::new_spanned(
                    attr,
                    "`flatten` is not supported, because it hides unknown keys; make the struct a separate key",
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn flatten_is_refused_beside_other_keys() {
        let error = expand(&parse_quote! {
            struct Config { #[serde(default = "x", rename(deserialize = "y"), flatten)] rest: Rest }
        });
        assert!(error.expect_err("it must not compile").to_string().starts_with("`flatten` is not supported"));
    }

    #[test]
    fn only_attributes_that_the_derives_read_are_copied() {
        let copy = copy_of(&parse_quote! {
            #[derive(Debug)]
            #[must_use]
            /// Doc.
            pub struct Config { #[serde(default)] #[deprecated] key: String }
        });
        let text = quote!(#copy).to_string();
        assert!(text.contains("Doc.") && text.contains("serde (default)"), "{text}");
        assert!(!text.contains("must_use") && !text.contains("deprecated"), "{text}");
    }

    #[test]
    fn type_parameters_and_unions_are_refused() {
        assert!(expand(&parse_quote! { struct Config<T> { key: T } }).is_err());
        assert!(expand(&parse_quote! { union Config { key: u8 } }).is_err());
    }
}
