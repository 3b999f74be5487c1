//! `export_adapter!`: what makes a library of an adapter type.
//!
//! The expansion carries no `allow` and no `unsafe` block, so that an author's
//! `#![forbid(unsafe_code)]` stands. Its two statics have unsafe attributes
//! (`no_mangle`, `link_section`); the lint does not look into macros of other
//! crates, and the names are this contract's own.

/// Exports `T` as the library's adapter, with the capability traits it implements:
/// `export_adapter!(T);`, `export_adapter!(T: Edit + Typing);`. Once a crate.
///
/// Does not compile under `panic = "abort"`, where a panic could not be contained, nor when
/// [`manifest!`](crate::manifest) promises what no listed trait keeps:
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
/// A trait that is listed but not implemented does not compile either:
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
            "an adapter needs `panic = \"unwind\"`: with \"abort\" one panic would end the whole host; remove `panic = \"abort\"` from the profile"
        );

        const _: () = {
            const LEN: usize = $crate::__private::manifest_len::<$adapter>();

            /// The manifest, readable in the file without opening the library.
            #[used]
            #[unsafe(no_mangle)]
            #[unsafe(link_section = ".hermes.adapter")]
            pub static HERMES_ADAPTER_MANIFEST: [u8; LEN] = $crate::__private::manifest_bytes::<$adapter, LEN>();

            /// The root module's header, under the name that `abi_stable` looks for.
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

/// Describes `T` like `export_adapter!` but exports no symbol: for a test file with
/// several adapters.
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

/// `Edit Typing` to `(Edit, (Typing, ()))`.
#[doc(hidden)]
#[macro_export]
macro_rules! __parts {
    () => { () };
    ($part:ident $($rest:ident)*) => { ($crate::__private::parts::$part, $crate::__parts!($($rest)*)) };
}
