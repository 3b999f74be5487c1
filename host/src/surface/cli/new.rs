//! `adapter new`: a new adapter crate that builds, passes its tests and can be certified.
//!
//! The source is `adapter-sdk/template`, a crate of this repository that is built and tested with it. Only its names
//! and its SDK dependency are replaced.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::ask::say;
use super::{Context, Failure};

/// The longest name, in bytes; the limit of adapter ids.
const NAME_BYTES_MAX: usize = 32;

/// Folders above the binary that are searched for the SDK: `target/release` and `target/<triple>/release` lie in a
/// checkout.
const ABOVE_MAX: usize = 4;

/// The folder of the SDK in a checkout.
const SDK_FOLDER: &str = "adapter-sdk";

/// The files of the template: path and content.
const FILES: [(&str, &str); 8] = [
    (".gitignore", include_str!("../../../../adapter-sdk/template/gitignore")),
    ("Cargo.toml", include_str!("../../../../adapter-sdk/template/Cargo.toml")),
    ("README.md", include_str!("../../../../adapter-sdk/template/README.md")),
    ("src/lib.rs", include_str!("../../../../adapter-sdk/template/src/lib.rs")),
    ("src/people.rs", include_str!("../../../../adapter-sdk/template/src/people.rs")),
    ("src/tests.rs", include_str!("../../../../adapter-sdk/template/src/tests.rs")),
    ("testdata/certify.toml", include_str!("../../../../adapter-sdk/template/testdata/certify.toml")),
    ("testdata/stage.py", include_str!("../../../../adapter-sdk/template/testdata/stage.py")),
];

/// The text that is appended to the template's `Cargo.toml`.
const OWN_WORKSPACE: &str = "\n# This crate is a workspace of its own, wherever its folder is.\n[workspace]\n";

/// The SDK dependency of the template.
const SDK_OF_TEMPLATE: &str = r#"path = "..""#;

/// The name of the built-in instance, which no adapter may use.
const RESERVED: &str = hermes_loader::terminal::INSTANCE;

/// Creates the crate.
pub fn new(context: &Context, name: &str, path: Option<&Path>, sdk: Option<&str>) -> Result<(), Failure> {
    let names = Names::of(name).map_err(Failure::usage)?;
    let cwd = &context.sources.cwd;
    let folder = cwd.join(path.unwrap_or(Path::new(&names.crate_name)));
    let sdk = match sdk {
        Some(words) => Sdk::named(words, cwd).map_err(Failure::usage)?,
        None => Sdk::around(context.beside.as_deref()).ok_or_else(|| Failure::failed(NO_SDK))?,
    };
    make(&folder, &names, &sdk).map_err(Failure::failed)?;
    let shown = path.map_or_else(|| names.crate_name.clone(), |path| path.display().to_string());
    let library = format!("target/debug/lib{}.so", names.library());
    say(&format!(
        "Created {} for an adapter with the id {}, with the SDK from {}.\n\n  cd {shown}\n  cargo build\n  cargo test\n  \
         hermes-host adapter try {library}\n  hermes-host adapter certify {library} --sample testdata/certify.toml\n\n\
         Start with src/lib.rs; continue with adapter-sdk/GUIDE.md.",
        folder.display(),
        names.id(),
        sdk.shown(),
    ))
}

const NO_SDK: &str = "the SDK was not found: it is in no registry yet, and this program is not in a checkout; pass a \
                      checkout with `--sdk PATH` or a git URL with `--sdk URL#TAG`";

/// The names of a crate.
struct Names {
    /// `my-chat`
    crate_name: String,
}

impl Names {
    /// Derives the names from the given one.
    fn of(name: &str) -> Result<Self, String> {
        let name = name.strip_prefix("hermes-adapter-").unwrap_or(name);
        let fits = name.len() <= NAME_BYTES_MAX
            && name.starts_with(|first: char| first.is_ascii_lowercase())
            && name.ends_with(|last: char| last.is_ascii_lowercase() || last.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
            && !["--", "__", "-_", "_-"].iter().any(|twice| name.contains(twice));
        if !fits {
            return Err(format!(
                "{name:?} is not a valid adapter name: use lowercase letters, digits and single dashes, at most \
                 {NAME_BYTES_MAX} characters, beginning with a letter, such as my-chat"
            ));
        }
        if name == RESERVED {
            return Err(format!("{name:?} is reserved for the host; choose another name, such as my-{name}"));
        }
        Ok(Self { crate_name: name.replace('_', "-") })
    }

    /// `my_chat`
    fn id(&self) -> String {
        self.crate_name.replace('-', "_")
    }

    /// `hermes_adapter_my_chat`
    fn library(&self) -> String {
        format!("hermes_adapter_{}", self.id())
    }

    /// `My chat`
    fn label(&self) -> String {
        capital(&self.crate_name.replace('-', " "))
    }

    /// `MyChatAdapter`; the suffix avoids a conflict with names of the SDK.
    fn type_name(&self) -> String {
        self.crate_name.split('-').map(capital).collect::<String>() + "Adapter"
    }

    /// Replaces the names in a file of the template.
    fn put_into(&self, text: &str) -> String {
        // All names are replaced in one pass, because a new name may look like one of the template.
        let places = [
            ("adapter_template", self.library()),
            ("adapter-template", format!("hermes-adapter-{}", self.crate_name)),
            ("line_chat", self.id()),
            ("Line chat", self.label()),
            ("LineChatAdapter", self.type_name()),
        ];
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((at, word, name)) =
            places.iter().filter_map(|(word, name)| Some((rest.find(word)?, word, name))).min_by_key(|(at, ..)| *at)
        {
            out.push_str(&rest[..at]);
            out.push_str(name);
            rest = &rest[at + word.len()..];
        }
        out + rest
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}

/// The source of the SDK.
#[derive(Debug, PartialEq, Eq)]
enum Sdk {
    /// A local folder.
    Folder(PathBuf),
    /// A git repository and an optional tag.
    Git { url: String, tag: Option<String> },
}

impl Sdk {
    /// Parses the value of `--sdk`.
    fn named(words: &str, cwd: &Path) -> Result<Self, String> {
        if words.contains("://") {
            let (url, tag) = match words.split_once('#') {
                Some((url, tag)) if !tag.is_empty() => (url, Some(tag.to_owned())),
                Some((url, _)) => (url, None),
                None => (words, None),
            };
            return Ok(Self::Git { url: url.to_owned(), tag });
        }
        let path = cwd.join(words);
        [path.join(SDK_FOLDER), path.clone()].into_iter().find_map(|folder| Self::in_folder(&folder)).ok_or_else(|| {
            format!("{} is not a checkout of hermes-host: it has no {SDK_FOLDER}/Cargo.toml", path.display())
        })
    }

    /// Finds the SDK of the checkout in which a binary was built.
    fn around(beside: Option<&Path>) -> Option<Self> {
        let real = fs::canonicalize(beside?).ok()?;
        real.ancestors().take(ABOVE_MAX).find_map(|folder| Self::in_folder(&folder.join(SDK_FOLDER)))
    }

    /// Returns the SDK if this folder contains it.
    fn in_folder(folder: &Path) -> Option<Self> {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
        let is_sdk = manifest.lines().any(|line| line.trim() == r#"name = "hermes-adapter-sdk""#);
        is_sdk.then(|| fs::canonicalize(folder).ok().map(Self::Folder)).flatten()
    }

    /// Returns the dependency for `[dependencies]`.
    fn dependency(&self) -> Result<String, String> {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        Ok(match self {
            Self::Folder(path) => {
                let path =
                    path.to_str().ok_or_else(|| format!("{} is not UTF-8, which cargo requires", path.display()))?;
                format!("path = {}", quoted(path))
            }
            Self::Git { url, tag: None } => format!("git = {}", quoted(url)),
            Self::Git { url, tag: Some(tag) } => format!("git = {}, tag = {}", quoted(url), quoted(tag)),
        })
    }

    fn shown(&self) -> String {
        match self {
            Self::Folder(path) => path.display().to_string(),
            Self::Git { url, tag } => tag.iter().fold(url.clone(), |url, tag| format!("{url}, tag {tag}")),
        }
    }
}

/// Creates the folder with all files, or nothing.
fn make(folder: &Path, names: &Names, sdk: &Sdk) -> Result<(), String> {
    if folder.symlink_metadata().is_ok() {
        return Err(format!("{} already exists; choose another folder with --path", folder.display()));
    }
    let dependency = sdk.dependency()?;
    let file_name = folder.file_name().ok_or_else(|| format!("{} is not a folder name", folder.display()))?;
    let unfinished = folder.with_file_name(format!(".{}.{}", file_name.to_string_lossy(), std::process::id()));
    let made = write_all(&unfinished, names, &dependency).and_then(|()| fs::rename(&unfinished, folder));
    made.map_err(|error| {
        // The folder may not exist yet.
        let _ = fs::remove_dir_all(&unfinished);
        format!("{} cannot be created ({error})", folder.display())
    })
}

fn write_all(folder: &Path, names: &Names, dependency: &str) -> io::Result<()> {
    fs::create_dir(folder)?;
    for (path, text) in FILES {
        let mut text = names.put_into(text);
        if path == "Cargo.toml" {
            text = text.replace(SDK_OF_TEMPLATE, dependency) + OWN_WORKSPACE;
        }
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_crates_the_ids_the_labels_and_the_types() {
        let names = Names::of("my-chat2").unwrap();
        let all = (names.id(), names.library(), names.label(), names.type_name());
        let expected = ("my_chat2", "hermes_adapter_my_chat2", "My chat2", "MyChat2Adapter");
        assert_eq!(all, (expected.0.into(), expected.1.into(), expected.2.into(), expected.3.into()));
        assert_eq!(Names::of("hermes-adapter-x").unwrap().crate_name, "x");
        assert_eq!(Names::of("my_chat").unwrap().crate_name, "my-chat");
        for wrong in
            ["", "Chat", "2chat", "my chat", "my-", "a--b", "../x", "x/y", "übung", "terminal", &"x".repeat(33)]
        {
            assert!(Names::of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_file_of_the_template_is_written_with_other_names_only() {
        let world = tempfile::tempdir().unwrap();
        let folder = world.path().join("crate");
        let sdk = Sdk::Git { url: "https://example.org/h.git".to_owned(), tag: Some("v1".to_owned()) };
        make(&folder, &Names::of("line-chat-2").unwrap(), &sdk).unwrap();
        let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../adapter-sdk/template");
        for path in ["src", "testdata", "."] {
            for entry in fs::read_dir(template.join(path)).unwrap().map(Result::unwrap) {
                let name = entry.file_name().to_string_lossy().replace("gitignore", ".gitignore");
                let is_known = entry.path().is_dir() || folder.join(path).join(&name).is_file();
                assert!(is_known, "{path}/{name} of the template is not written");
            }
        }
        let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
        let cargo = read("Cargo.toml");
        let dependency = r#"hermes-adapter-sdk = { git = "https://example.org/h.git", tag = "v1""#;
        assert_eq!(cargo.matches(dependency).count(), 2, "{cargo}");
        assert!(
            cargo.contains(r#"name = "hermes-adapter-line-chat-2""#) && cargo.ends_with("[workspace]\n"),
            "{cargo}"
        );
        let code = read("src/lib.rs");
        assert!(code.contains(r#"id: "line_chat_2""#) && code.contains("export_adapter!(LineChat2Adapter)"), "{code}");
        assert!(read("README.md").contains("target/debug/libhermes_adapter_line_chat_2.so"));
    }

    #[test]
    fn a_folder_that_exists_is_left_alone_and_one_that_cannot_be_made_leaves_nothing() {
        let world = tempfile::tempdir().unwrap();
        let (names, sdk) = (Names::of("x").unwrap(), Sdk::Folder("/sdk".into()));
        let there = world.path().join("there");
        fs::create_dir(&there).unwrap();
        assert!(make(&there, &names, &sdk).unwrap_err().contains("already exists"));
        assert!(make(&world.path().join("gone/x"), &names, &sdk).unwrap_err().contains("cannot be created"));
        let left: Vec<_> = fs::read_dir(world.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["there"]);
        assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
    }

    #[test]
    fn the_sdk_is_a_checkout_its_folder_or_a_git_address() {
        let checkout = fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        let folder = Sdk::Folder(checkout.join("adapter-sdk"));
        assert_eq!(Sdk::named(".", &checkout), Ok(Sdk::Folder(checkout.join("adapter-sdk"))));
        assert_eq!(Sdk::named("adapter-sdk", &checkout), Ok(folder));
        assert!(Sdk::named("host", &checkout).unwrap_err().contains("not a checkout"));
        let git = Sdk::Git { url: "https://example.org/h".to_owned(), tag: None };
        assert_eq!(Sdk::named("https://example.org/h", &checkout), Ok(git));
        assert_eq!(Sdk::around(Some(&checkout.join("tests/src"))), Some(Sdk::Folder(checkout.join("adapter-sdk"))));
        assert_eq!(Sdk::around(Some(Path::new("/"))), None);
    }
}
