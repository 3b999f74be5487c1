//! The host and the libraries, built once for each test program.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// File name of the library from the crate of `adapter new`.
const TEMPLATE: &str = "libadapter_template.so";

/// The paths of the built files.
pub struct Artefacts {
    folder: PathBuf,
}

impl Artefacts {
    /// Returns the host binary with its crash points. The adapter libraries are next to it.
    pub fn host(&self) -> PathBuf {
        self.folder.join("hermes-host")
    }

    /// Returns a fixture's library, in a folder that no host searches.
    pub fn fixture(&self, name: &str) -> PathBuf {
        self.folder.join("fixtures").join(format!("libfixture_{name}.so"))
    }

    /// Returns an adapter's library.
    pub fn adapter(&self, id: &str) -> PathBuf {
        self.folder.join(format!("libhermes_adapter_{id}.so"))
    }

    /// Returns the ids of this workspace's adapters in order: the folders inside of `adapters/`.
    pub fn adapters(&self) -> Vec<String> {
        let folder = root().join("adapters");
        let entries = fs::read_dir(folder).expect("adapters/ exists").filter_map(Result::ok);
        let crates = entries.filter(|entry| entry.path().join("Cargo.toml").is_file());
        let mut ids: Vec<String> = crates.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        ids.sort();
        ids
    }

    /// Returns the library of the crate that `adapter new` writes.
    pub fn template(&self) -> PathBuf {
        self.folder.join("fixtures").join(TEMPLATE)
    }
}

/// Builds the host with its crash points and the libraries, which `cargo test` alone does not build. A copy is used,
/// so that a later build does not change it under a running host.
pub fn artefacts() -> &'static Artefacts {
    static BUILT: OnceLock<Artefacts> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = target_folder();
        let status = cargo()
            .args(["build", "--workspace", "--features", "hermes-host/crash-points", "--quiet"])
            .args(targets())
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

/// Returns the cargo that built this program, without the variables that cargo sets for a package. Build
/// scripts of dependencies read some of them and would run again, with all their dependents, whenever a manual
/// build and a build in a test alternate.
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

/// The targets of the build. `--examples` lets cargo count the features of dev-dependencies, as `cargo test` does, so
/// that both share every dependency and the host's library. A release is measured, and is built as it ships.
fn targets() -> &'static [&'static str] {
    if release() { &["--exclude", "hermes-tests", "--release"] } else { &["--lib", "--bins", "--examples"] }
}

/// Copies a file that is not there yet, and renames the copy: another test program may be running the old file.
fn place(from: &Path, to: &Path) {
    let state = |path: &Path| fs::metadata(path).and_then(|about| Ok((about.len(), about.modified()?)));
    let built = state(from).expect("cargo left the file");
    if state(to).is_ok_and(|placed| placed == built) {
        return;
    }
    let beside = to.with_extension(format!("new.{}", std::process::id()));
    fs::copy(from, &beside).expect("the copy is written");
    let copy = fs::File::options().write(true).open(&beside).expect("the copy is ours");
    copy.set_modified(built.1).expect("the copy is ours");
    fs::rename(&beside, to).expect("the copy is put in place");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace")
}

fn release() -> bool {
    !cfg!(debug_assertions)
}

/// Returns the target folder of this test program.
fn target_folder() -> PathBuf {
    let program = env::current_exe().expect("the program knows its path");
    program.ancestors().nth(3).expect("it lies in target/<profile>/deps").to_owned()
}
