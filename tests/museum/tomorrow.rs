//! The SDK of the next version: 1.2.0 of these sources, with all kinds of additions that 1.x permits.
//!
//! The additions are one function at the end of each vtable, one method on either side, one optional field in
//! incoming and outgoing payloads, and one variant of a tagged enum. A host and an adapter are built from it,
//! and both report their findings about the other side.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::sources::{Sources, build};

/// Result of the new functions.
pub const ANSWER: u32 = 11;

/// Returns the host of the next version.
pub fn host() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        build(folder(), &["-p", "hermes-host", "--bin", "hermes-host-tomorrow"], "hermes-host-tomorrow")
    })
}

/// Returns the scripted adapter of the next version; its id is `tomorrow`.
pub fn adapter() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(folder(), &["-p", "fixture-scripted", "--lib"], "libfixture_tomorrow.so"))
}

fn folder() -> &'static Path {
    static WRITTEN: OnceLock<PathBuf> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let mut sources = Sources::of_today("tomorrow");
        sdk(&mut sources);
        adapter_of(&mut sources);
        host_of(&mut sources);
        sources.write()
    })
}

/// Sets the version of the crates from which an adapter is built.
pub fn version(sources: &mut Sources, version: &str) {
    for crate_ in ["", "abi/", "conformance/", "macros/", "markup/", "net/", "protocol/"] {
        let manifest = format!("adapter-sdk/{crate_}Cargo.toml");
        sources.edit(&manifest, "version = \"1.1.0\"\nrust-version", &format!("version = \"{version}\"\nrust-version"));
    }
}

fn sdk(sources: &mut Sources) {
    version(sources, "1.2.0");
    vtables(sources);
    payloads(sources);
    sources
        .after(
            "adapter-sdk/src/host.rs",
            "        self.state.stopping().cancelled().await;\n    }\n",
            "\n    /// The function that hosts before 1.2 lack.\n    \
             pub fn tomorrow(&self) -> Option<u32> {\n        self.state.host().tomorrow()\n    }\n",
        )
        .after(
            "adapter-sdk/src/adapter.rs",
            "    fn send(&self, message: Outgoing) -> impl Future<Output = SendOutcome> + Send;\n",
            r#"
    /// The method that adapters before 1.2 lack.
    ///
    /// # Errors
    ///
    /// By default always.
    fn tomorrow(&self) -> impl Future<Output = Result<String, CallError>> + Send {
        std::future::ready(Err(CallError::new("unsupported", "this adapter does not think of tomorrow")))
    }
"#,
        )
        .before(
            "adapter-sdk/src/dispatch.rs",
            "        other => A::Parts::answer(adapter, other, payload),\n",
            "        \"tomorrow\" => Some(plain(async move { Reply::of(adapter_.tomorrow().await) })),\n",
        );
}

fn vtables(sources: &mut Sources) {
    const ABI: &str = "adapter-sdk/abi/src/lib.rs";
    const VTABLE: &str = "adapter-sdk/src/export/vtable.rs";
    sources
        .after(
            ABI,
            "    pub release: extern \"C\" fn(ctx: *const c_void),\n",
            "    /// New in 1.2. `[any-thread & !released]`\n    \
             pub tomorrow: extern \"C\" fn(ctx: *const c_void) -> u32,\n",
        )
        .after(
            ABI,
            "    pub destroy: extern \"C\" fn(this: *mut c_void, deadline_ms: u64) -> u32,\n",
            "    /// New in 1.2. `[any-thread & started]`\n    \
             pub tomorrow: extern \"C\" fn(this: *mut c_void) -> u32,\n",
        )
        .after(
            ABI,
            "    pub check_config: extern \"C\" fn(config: RSlice<'_, u8>) -> RString,\n",
            "    /// New in 1.2. `[any-thread & loaded]`\n    pub tomorrow: extern \"C\" fn() -> u32,\n",
        )
        .after(VTABLE, "            check_config: check_config::<A>,\n", "            tomorrow: tomorrow_module,\n")
        .after(VTABLE, "            destroy: destroy::<A>,\n", "            tomorrow: tomorrow_instance::<A>,\n")
        .append(
            VTABLE,
            &format!(
                r#"
/// New in 1.2. `[any-thread & loaded]`
extern "C" fn tomorrow_module() -> u32 {{
    {ANSWER}
}}

/// New in 1.2. `[any-thread & started]`
extern "C" fn tomorrow_instance<A: Exported>(this: *mut c_void) -> u32 {{
    // SAFETY: the host calls with an instance of this vtable that is not destroyed.
    guard(|| unsafe {{ handle::<A>(this) }}.map_or(0, |_| {ANSWER})).unwrap_or(0)
}}
"#
            ),
        )
        .after(
            "adapter-sdk/src/host_port.rs",
            "    fn max_level(&self) -> u8;\n",
            "\n    /// New in 1.2.\n    fn tomorrow(&self) -> Option<u32>;\n",
        )
        .before(
            "adapter-sdk/src/export/pointers.rs",
            "    fn max_level(&self) -> u8 {\n",
            "    fn tomorrow(&self) -> Option<u32> {\n        \
             self.handle.vtable.tomorrow().map(|ask| ask(self.handle.ctx))\n    }\n\n",
        );
}

fn payloads(sources: &mut Sources) {
    const EVENT: &str = "adapter-sdk/protocol/src/event.rs";
    const OUTGOING: &str = "adapter-sdk/protocol/src/outgoing.rs";
    const CALLS: &str = "adapter-sdk/protocol/src/calls.rs";
    const FIELD: &str = "    /// New in 1.2.\n    #[serde(default, skip_serializing_if = \"Option::is_none\")]\n    \
                         pub tomorrow: Option<String>,\n";
    sources
        .after(CALLS, "    pub data_dir: Option<String>,\n", FIELD)
        .before(CALLS, "data_dir: None }", "tomorrow: Some(\"1.2\".to_owned()), ")
        .after(EVENT, "    pub raw: Value,\n", FIELD)
        .before(EVENT, "            raw: Value::Null,\n            extra:", "            tomorrow: None,\n")
        .after(OUTGOING, "    pub ephemeral_to: Option<String>,\n", FIELD)
        .before(
            OUTGOING,
            "            within_ms: None,\n            extra:",
            "            tomorrow: Some(\"1.2\".to_owned()),\n",
        )
        .after(
            OUTGOING,
            "        keyless: bool,\n    },\n",
            "    /// New in 1.2.\n    Tomorrow {\n        /// Anything.\n        note: String,\n    },\n",
        );
}

fn adapter_of(sources: &mut Sources) {
    const FIXTURE: &str = "tests/fixtures/scripted/src/lib.rs";
    sources
        .edit("tests/fixtures/scripted/Cargo.toml", "name = \"fixture_scripted\"", "name = \"fixture_tomorrow\"")
        .edit(
            FIXTURE,
            "        id: \"scripted\",\n",
            "        id: \"tomorrow\",\n        requires_host: \">=1.0, <2\",\n",
        )
        .edit(
            FIXTURE,
            "        self.saw(\"connect\", json!({})).await;\n",
            r#"        let method = match self.host.call::<Value>("tomorrow", &json!({})).await {
            Ok(answer) => answer,
            Err(error) => json!(error.code),
        };
        self.saw("connect", json!({ "host_function": self.host.tomorrow(), "host_method": method })).await;
"#,
        )
        .before(
            FIXTURE,
            "    async fn send(&self, message: Outgoing) -> SendOutcome {\n",
            "    async fn tomorrow(&self) -> Result<String, CallError> {\n        \
             Ok(\"the adapter of tomorrow answers\".to_owned())\n    }\n\n",
        );
}

fn host_of(sources: &mut Sources) {
    const CALLBACKS: &str = "host/loader/src/ffi/callbacks.rs";
    sources
        .edit(
            "host/Cargo.toml",
            "license.workspace = true\n",
            "license.workspace = true\nautobins = false\n",
        )
        .append(
            "host/Cargo.toml",
            "\n[[bin]]\nname = \"hermes-host-tomorrow\"\npath = \"src/main.rs\"\n",
        )
        .edit(CALLBACKS, "HostVt { call, log, max_level, release }", "HostVt { call, log, max_level, release, tomorrow }")
        .append(
            CALLBACKS,
            &format!(
                "\n/// New in 1.2. `[any-thread & !released]`\nextern \"C\" fn tomorrow(ctx: *const c_void) -> u32 {{\n    \
                 guarded(0, || port(ctx).map_or(0, |_| {ANSWER}))\n}}\n"
            ),
        )
        .edit(
            "host/loader/src/ffi/library.rs",
            "            RResult::ROk(instance) => Ok(ForeignInstance::new(instance, number)),\n",
            r#"            RResult::ROk(instance) => {
                let module = self.module.tomorrow().map(|ask| ask());
                let own = instance.vtable.tomorrow().map(|ask| ask(instance.this));
                eprintln!("museum: module {module:?}, instance {own:?}");
                Ok(ForeignInstance::new(instance, number))
            }
"#,
        )
        .before(
            "host/loader/src/services.rs",
            "            host_method::PROVED => {\n",
            "            \"tomorrow\" => Ok(json!(\"the host of tomorrow answers\")),\n",
        )
        .before(
            "host/loader/src/supervisor.rs",
            "        let running = Arc::clone(&life);\n",
            r#"        let asked = life.call("tomorrow", b"{}".to_vec()).await;
        let said = String::from_utf8_lossy(&asked.payload);
        eprintln!("museum: {} answers {} {said}", shared.instance, asked.status);
"#,
        );
}
