//! The host and the libraries, built once for each test program.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// What the crate that `adapter new` writes is called in this workspace.
const TEMPLATE: &str = "libadapter_template.so";

/// Where the built files lie.
pub struct Artefacts {
    folder: PathBuf,
}

impl Artefacts {
    /// The host binary, with its crash points. The adapters' libraries lie beside it.
    pub fn host(&self) -> PathBuf {
        self.folder.join("hermes-host")
    }

    /// A fixture's library; it lies where no host looks by itself.
    pub fn fixture(&self, name: &str) -> PathBuf {
        self.folder.join("fixtures").join(format!("libfixture_{name}.so"))
    }

    /// An adapter's library.
    pub fn adapter(&self, id: &str) -> PathBuf {
        self.folder.join(format!("libhermes_adapter_{id}.so"))
    }

    /// The ids of the adapters of this workspace, in order: the folders below `adapters/`.
    pub fn adapters(&self) -> Vec<String> {
        let folder = root().join("adapters");
        let entries = fs::read_dir(folder).expect("adapters/ exists").filter_map(Result::ok);
        let crates = entries.filter(|entry| entry.path().join("Cargo.toml").is_file());
        let mut ids: Vec<String> = crates.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        ids.sort();
        ids
    }

    /// The library of the crate that `adapter new` writes.
    pub fn template(&self) -> PathBuf {
        self.folder.join("fixtures").join(TEMPLATE)
    }
}

/// Builds what the rings need: `cargo test` alone builds neither the binary with its crash points
/// nor the libraries. A copy is used, so that a later build does not change it under a running host.
pub fn artefacts() -> &'static Artefacts {
    static BUILT: OnceLock<Artefacts> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = target_folder();
        let status = cargo()
            .args([
                "build",
                "--workspace",
                "--exclude",
                "hermes-tests",
                "--features",
                "hermes-host/crash-points",
                "--quiet",
            ])
            .args(if release() { &["--release"][..] } else { &[] })
            .arg("--target-dir")
            .arg(&target)
            .current_dir(root())
            .status()
            .expect("cargo starts");
        assert!(status.success(), "the artefacts do not build");
        let built = target.join(if release() { "release" } else { "debug" });
        let folder = target.join("rings").join(if release() { "release" } else { "debug" });
        fs::create_dir_all(folder.join("fixtures")).expect("target/ is writable");
        for entry in fs::read_dir(&built).expect("the build left a folder").filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "hermes-host" || (name.starts_with("libhermes_adapter_") && name.ends_with(".so")) {
                place(&entry.path(), &folder.join(&name));
            } else if (name.starts_with("libfixture_") && name.ends_with(".so")) || name == TEMPLATE {
                place(&entry.path(), &folder.join("fixtures").join(&name));
            }
        }
        Artefacts { folder }
    })
}

/// The cargo that builds this program, without what it tells a program about its own package: build scripts
/// of dependencies read some of it, and would run again with all that stands on them, at every change between
/// a build by hand and one out of a test.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in env::vars_os() {
        let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        if name.to_str().is_some_and(of_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Copies beside and renames: another test program may be running the old file.
fn place(from: &Path, to: &Path) {
    let beside = to.with_extension(format!("new.{}", std::process::id()));
    fs::copy(from, &beside).expect("the copy is written");
    fs::rename(&beside, to).expect("the copy is put in place");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace")
}

fn release() -> bool {
    !cfg!(debug_assertions)
}

/// The target folder that this test program was built into.
fn target_folder() -> PathBuf {
    let program = env::current_exe().expect("the program knows its path");
    program.ancestors().nth(3).expect("it lies in target/<profile>/deps").to_owned()
}
