//! Adapters of SDKs that broke the rules of 1.x, and of an SDK without a later function, built stripped like a
//! release.

use std::{path::PathBuf, sync::OnceLock};

use crate::sources::{Sources, build};

const ABI: &str = "adapter-sdk/abi/src/lib.rs";

/// Returns an adapter of an SDK in which a vtable function returns another type.
pub fn retyped() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut sources = Sources::of_today("retyped");
        sources
            .edit(
                ABI,
                "    pub max_level: extern \"C\" fn(ctx: *const c_void) -> u8,\n",
                "    pub max_level: extern \"C\" fn(ctx: *const c_void) -> u32,\n",
            )
            .edit(
                "adapter-sdk/src/export/pointers.rs",
                "        (self.handle.vtable.max_level())(self.handle.ctx)\n",
                "        u8::try_from((self.handle.vtable.max_level())(self.handle.ctx)).unwrap_or(u8::MAX)\n",
            );
        stranger(sources, "retyped")
    })
}

/// Returns an adapter of an SDK in which a struct at the boundary has one more field.
pub fn widened() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut sources = Sources::of_today("widened");
        sources.after(ABI, "    pub vtable: HostVt_Ref,\n", "    /// One more.\n    pub more: u64,\n");
        stranger(sources, "widened")
    })
}

/// Returns an adapter of an SDK that cannot check configuration values.
pub fn unasked() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut sources = Sources::of_today("unasked");
        sources
            .before(
                ABI,
                "    pub check_config: extern \"C\" fn(config: RSlice<'_, u8>) -> RString,\n",
                "    #[cfg(any())]\n",
            )
            .edit("adapter-sdk/src/export/vtable.rs", "            check_config: check_config::<A>,\n", "")
            .edit(
                "adapter-sdk/src/export/mock.rs",
                "    let check = vtable::root::<A>().check_config().expect(\"this SDK's own table has it\");\n    \
                 check(RSlice::from(config)).into_string()\n",
                "    let _ = config;\n    String::new()\n",
            );
        stranger(sources, "unasked")
    })
}

fn stranger(mut sources: Sources, name: &str) -> PathBuf {
    sources.edit("tests/museum/foreign/Cargo.toml", "\"fixture_foreign\"", &format!("\"fixture_{name}\"")).edit(
        "tests/museum/foreign/src/lib.rs",
        "        id: \"foreign\",\n",
        &format!("        id: {name:?},\n"),
    );
    let arguments = ["-p", "fixture-foreign", "--lib", "--config", "profile.dev.package.fixture-foreign.strip=true"];
    build(&sources.write(), &arguments, &format!("libfixture_{name}.so"))
}
