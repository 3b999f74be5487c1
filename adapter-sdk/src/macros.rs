//! `export_adapter!`, which makes a loadable library of an adapter type.
//!
//! The expansion contains no `allow` and no `unsafe` block, so an author's
//! `#![forbid(unsafe_code)]` holds. Its two statics have unsafe attributes (`no_mangle`,
//! `link_section`). The lint does not check macros of other crates, and the names belong to
//! this interface.

/// Exports `T` as the library's adapter, with the capability traits that it implements:
/// `export_adapter!(T);`, `export_adapter!(T: Edit + Typing);`. Use it once per crate.
///
/// Does not compile under `panic = "abort"`, which would make a panic uncontainable, nor if
/// [`manifest!`](crate::manifest) declares a capability without its trait in the list:
///
/// ```compile_fail,E0080
/// use hermes_adapter_sdk::prelude::*;
///
/// #[derive(AdapterConfig)]
/// struct Config {}
/// struct Liar;
///
/// impl Adapter for Liar {
///     // `stream: native` needs `NativeStream` in the list below.
///     const MANIFEST: Manifest = manifest! { id: "liar", label: "Liar", stream: native };
///     type Config = Config;
///     fn new(_: Config, _: Host) -> Self { Self }
///     async fn connect(&self) -> Result<(), ConnectError> { Ok(()) }
///     async fn send(&self, _: Outgoing) -> SendOutcome { SendOutcome::unknown("") }
/// }
///
/// export_adapter!(Liar);
/// # fn main() {}
/// ```
///
/// A trait that is listed but not implemented is a compile error, too:
///
/// ```compile_fail,E0277
/// use hermes_adapter_sdk::prelude::*;
///
/// #[derive(AdapterConfig)]
/// struct Config {}
/// struct Boaster;
///
/// impl Adapter for Boaster {
///     const MANIFEST: Manifest = manifest! { id: "boaster", label: "Boaster" };
///     type Config = Config;
///     fn new(_: Config, _: Host) -> Self { Self }
///     async fn connect(&self) -> Result<(), ConnectError> { Ok(()) }
///     async fn send(&self, _: Outgoing) -> SendOutcome { SendOutcome::unknown("") }
/// }
///
/// export_adapter!(Boaster: Typing);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_adapter {
    ($adapter:ty $(: $first:ident $(+ $part:ident)*)?) => {
        #[cfg(panic = "abort")]
        ::core::compile_error!(
            "an adapter requires `panic = \"unwind\"`, because with \"abort\" a panic ends the whole host; remove `panic = \"abort\"` from the profile"
        );

        const _: () = {
            const LEN: usize = $crate::__private::manifest_len::<$adapter>();

            /// The manifest, readable in the file without loading the library.
            #[used]
            #[unsafe(no_mangle)]
            #[unsafe(link_section = ".hermes.adapter")]
            pub static HERMES_ADAPTER_MANIFEST: [u8; LEN] = $crate::__private::manifest_bytes::<$adapter, LEN>();

            /// The root module's header, under the name that `abi_stable` expects.
            #[unsafe(no_mangle)]
            pub static _1as_0lib_1header_0root_bmodule_bloader: $crate::__private::LibHeader =
                $crate::__private::lib_header::<$adapter>();

            impl $crate::__private::Exported for $adapter {
                type Parts = $crate::__parts!($($first $($part)*)?);

                fn manifest() -> &'static [u8] {
                    &HERMES_ADAPTER_MANIFEST
                }
            }
        };
    };
}

/// Describes `T` like `export_adapter!` without exporting a symbol, for a test file with several adapters.
#[cfg(feature = "testing")]
#[macro_export]
macro_rules! test_adapter {
    ($adapter:ty $(: $first:ident $(+ $part:ident)*)?) => {
        const _: () = {
            const LEN: usize = $crate::__private::manifest_len::<$adapter>();
            static MANIFEST: [u8; LEN] = $crate::__private::manifest_bytes::<$adapter, LEN>();

            impl $crate::__private::Exported for $adapter {
                type Parts = $crate::__parts!($($first $($part)*)?);

                fn manifest() -> &'static [u8] {
                    &MANIFEST
                }
            }
        };
    };
}

/// Converts `Edit Typing` to `(Edit, (Typing, ()))`.
#[doc(hidden)]
#[macro_export]
macro_rules! __parts {
    () => { () };
    ($part:ident $($rest:ident)*) => { ($crate::__private::parts::$part, $crate::__parts!($($rest)*)) };
}
