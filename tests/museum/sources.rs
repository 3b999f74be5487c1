//! Copies of this workspace's sources, modified by exact edits and built separately.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Contents of a copy. `tests/` itself is not a member of it.
const COPIED: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "plugins.toml",
    "adapter-sdk",
    "adapters",
    "host",
    "tests/fixtures",
    "tests/museum/foreign",
];

/// Names that are never copied.
const LEFT_OUT: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// A copy under construction.
pub struct Sources {
    name: &'static str,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Sources {
    /// Reads the current sources.
    pub fn of_today(name: &'static str) -> Self {
        let mut files = BTreeMap::new();
        for part in COPIED {
            gather(&root(), Path::new(part), &mut files);
        }
        let mut sources = Self { name, files };
        sources.edit("Cargo.toml", "    \"tests\",\n", "").edit("Cargo.toml", "    \"tests/xtask\",\n", "");
        sources.move_members();
        sources
    }

    /// Moves the members of the workspace into a folder with the name of the copy. Cargo distinguishes packages
    /// of the same name and version by their path in the workspace, so the members of a copy cannot be mistaken
    /// for those of this workspace or of another copy.
    fn move_members(&mut self) {
        let manifest = self.files.get_mut(Path::new("Cargo.toml")).expect("it was copied");
        let text = String::from_utf8(manifest.clone()).expect("a manifest is text");
        let (members, rest) = text.split_once("\n]\n").expect("the members come first");
        let members = members.replace("\n    \"", &format!("\n    \"{}/", self.name));
        let rest = rest.replace("path = \"", &format!("path = \"{}/", self.name));
        *manifest = format!("{members}\n]\n{rest}").into_bytes();
    }

    /// Returns the path of a file in the written copy.
    fn place(&self, path: &Path) -> PathBuf {
        // The manifest and the lock are the workspace. The host includes `plugins.toml` by its path from its own folder.
        match path.to_str() {
            Some("Cargo.toml" | "Cargo.lock") => path.to_owned(),
            _ => Path::new(self.name).join(path),
        }
    }

    /// Replaces `old`, which must occur in `file` exactly once.
    pub fn edit(&mut self, file: &str, old: &str, new: &str) -> &mut Self {
        let bytes = self.files.get_mut(Path::new(file)).unwrap_or_else(|| panic!("there is no {file} any more"));
        let text = String::from_utf8(bytes.clone()).unwrap_or_else(|_| panic!("{file} is no text"));
        let found = text.matches(old).count();
        assert_eq!(found, 1, "the museum's edit of {file} wants this text once, found it {found} times:\n{old}");
        *bytes = text.replacen(old, new, 1).into_bytes();
        self
    }

    /// Inserts `new` right before `old`.
    pub fn before(&mut self, file: &str, old: &str, new: &str) -> &mut Self {
        self.edit(file, old, &format!("{new}{old}"))
    }

    /// Inserts `new` right after `old`.
    pub fn after(&mut self, file: &str, old: &str, new: &str) -> &mut Self {
        self.edit(file, old, &format!("{old}{new}"))
    }

    /// Appends `new` to `file`.
    pub fn append(&mut self, file: &str, new: &str) -> &mut Self {
        let bytes = self.files.get_mut(Path::new(file)).unwrap_or_else(|| panic!("there is no {file} any more"));
        bytes.extend_from_slice(new.as_bytes());
        self
    }

    /// Writes the copy and returns its folder. Unchanged files are not touched, so that they are not built
    /// again.
    pub fn write(&self) -> PathBuf {
        let folder = target().join("museum").join(self.name);
        let mut there = BTreeMap::new();
        if folder.exists() {
            gather(&folder, Path::new(""), &mut there);
        }
        for (path, bytes) in &self.files {
            let path = self.place(path);
            if there.remove(&path).as_ref() != Some(bytes) {
                let path = folder.join(path);
                fs::create_dir_all(path.parent().expect("it is inside of the copy")).expect("target/ is writable");
                fs::write(path, bytes).expect("target/ is writable");
            }
        }
        for path in there.into_keys().filter(|path| path != Path::new("Cargo.lock")) {
            fs::remove_file(folder.join(path)).expect("target/ is writable");
        }
        folder
    }
}

fn gather(root: &Path, part: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let path = root.join(part);
    if path.is_file() {
        files.insert(part.to_owned(), fs::read(&path).expect("the sources can be read"));
        return;
    }
    for entry in fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
        let name = entry.expect("the sources can be read").file_name();
        if !LEFT_OUT.iter().any(|left_out| name == *left_out) {
            gather(root, &part.join(name), files);
        }
    }
}

/// Runs cargo in `folder` with this workspace's target folder, which shares the registry crates. The built
/// files of a copy have their own names, so that no file of this workspace is overwritten.
pub fn cargo(folder: &Path, arguments: &[&str]) -> std::process::Output {
    hermes_tests::cargo()
        .args(arguments)
        .args(["--offline", "--quiet", "--target-dir"])
        .arg(target())
        .current_dir(folder)
        .output()
        .expect("cargo starts")
}

/// Runs [`cargo`] for a build that must succeed. Returns the built file.
pub fn build(folder: &Path, arguments: &[&str], left: &str) -> PathBuf {
    let output = cargo(folder, &[&["build"], arguments].concat());
    assert!(output.status.success(), "{}: {}", folder.display(), String::from_utf8_lossy(&output.stderr));
    let profile = if arguments.contains(&"--release") { "release" } else { "debug" };
    let kept = target().join("museum").join("built").join(profile);
    fs::create_dir_all(&kept).expect("target/ is writable");
    let to = kept.join(left);
    let beside = kept.join(format!("{left}.new.{}", std::process::id()));
    fs::copy(target().join(profile).join(left), &beside).expect("cargo left it there");
    fs::rename(&beside, &to).expect("target/ is writable");
    to
}

/// Returns the root of this workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_owned()
}

/// Returns the target folder of this test program.
pub fn target() -> PathBuf {
    let program = std::env::current_exe().expect("the program knows its path");
    program.ancestors().nth(3).expect("it lies in target/<profile>/deps").to_owned()
}
