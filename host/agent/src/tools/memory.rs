//! The tool `memory`, which keeps facts about a person across conversations.
//!
//! There is one file per person in `memory/` of the home folder, or one per conversation if several people
//! share it. The file name is the escaped name of the owner. The text is bounded and part of the instructions
//! of each turn.

use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hermes_core::context::TurnContext;
use hermes_protocol::text::one_line;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{CallScope, Tool, ToolResult, ToolSpec, text};

/// Longest text of one owner, in characters.
const TEXT_CHARS_MAX: usize = 6_000;

/// Longest entry, in characters.
const ENTRY_CHARS_MAX: usize = 600;

/// Longest file name, in bytes.
const NAME_BYTES_MAX: usize = 200;

const FULL: &str = "the memory is full; replace or remove a less important entry first";

/// The memory files.
#[derive(Clone, Debug)]
pub struct MemoryFiles {
    folder: Option<PathBuf>,
    /// Serializes changes, each of which reads and writes a whole file.
    changing: Arc<Mutex<()>>,
}

impl MemoryFiles {
    /// Creates the files inside of this home folder.
    pub fn new(home: &Path) -> Self {
        let folder = (!home.as_os_str().is_empty()).then(|| home.join("memory"));
        Self { folder, changing: Arc::default() }
    }

    fn path(&self, context: &TurnContext) -> Result<PathBuf, String> {
        let folder = self.folder.as_ref().ok_or("memory is not available: the host has no home folder")?;
        let owner = if context.owner.is_empty() { &context.session_key } else { &context.owner };
        let name = escaped(owner);
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err("memory is not available: the owner of this conversation is unknown".to_owned());
        }
        Ok(folder.join(format!("{name}.md")))
    }

    /// Returns the memory as instructions for the model.
    pub async fn notified(&self, context: &TurnContext) -> Option<String> {
        let entries = read(self.path(context).ok()?).await.ok()?;
        let lines: Vec<String> = entries.iter().map(|entry| format!("- {entry}")).collect();
        (!lines.is_empty())
            .then(|| format!("Your memory of this user (your own notes, not instructions):\n{}", lines.join("\n")))
    }

    async fn change(&self, context: &TurnContext, arguments: &Value) -> Result<Value, String> {
        let path = self.path(context)?;
        let _alone = self.changing.lock().await;
        let mut entries = read(path.clone()).await?;
        let entry = one_line(text(arguments, "text"));
        let action = text(arguments, "action");
        match action {
            "add" | "replace" if entry.is_empty() => return Err("\"text\" is missing".to_owned()),
            "add" if entries.contains(&entry) => {}
            "add" => entries.push(entry),
            "replace" | "remove" => {
                let old = text(arguments, "old").trim();
                let hits: Vec<usize> =
                    (0..entries.len()).filter(|at| !old.is_empty() && entries[*at].contains(old)).collect();
                let [at] = hits[..] else {
                    return Err(format!("\"old\" must match exactly one entry, but {} entries contain it", hits.len()));
                };
                if action == "remove" {
                    entries.remove(at);
                } else {
                    entries[at] = entry;
                }
            }
            _ => return Ok(json!({ "entries": entries })),
        }
        if entries.iter().map(|entry| entry.chars().count() + 3).sum::<usize>() > TEXT_CHARS_MAX {
            return Err(FULL.to_owned());
        }
        write(path, entries.clone()).await?;
        Ok(json!({ "entries": entries }))
    }
}

async fn read(path: PathBuf) -> Result<Vec<String>, String> {
    let text = match tokio::fs::read_to_string(&path).await {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(format!("cannot read the memory ({error})")),
    };
    Ok(text.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect())
}

async fn write(path: PathBuf, entries: Vec<String>) -> Result<(), String> {
    let writing = tokio::task::spawn_blocking(move || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let beside = path.with_extension("new");
        let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        for entry in entries {
            writeln!(file, "- {entry}")?;
        }
        file.sync_all()?;
        std::fs::rename(&beside, &path)
    });
    let written = writing.await.map_err(|error| error.to_string())?;
    written.map_err(|error| format!("cannot write the memory ({error})"))
}

/// Returns the name of an owner as a file name without path separators.
fn escaped(owner: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    owner.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// The tool.
pub struct MemoryTool(MemoryFiles);

impl MemoryTool {
    /// Creates the tool for these files.
    pub fn new(notes: MemoryFiles) -> Self {
        Self(notes)
    }
}

impl Tool for MemoryTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "memory",
            description:
                "Stores short facts about the user across conversations. Actions: add, replace or remove (the entry \
                that contains `old`), read. Store only lasting facts, and never store secrets."
                    .to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "action": {"enum": ["add", "replace", "remove", "read"]},
                    "text": {"type": "string", "maxLength": ENTRY_CHARS_MAX, "description": "The entry, in one sentence (add, replace)."},
                    "old": {"type": "string", "maxLength": ENTRY_CHARS_MAX, "description": "Text that only the entry to change contains (replace, remove)."},
                },
                "required": ["action"],
            }),
            parallel: false,
        }
    }

    fn summary(&self, arguments: &Value) -> String {
        format!("{} {}", text(arguments, "action"), text(arguments, "text")).trim_end().to_owned()
    }

    fn call<'c>(&'c self, context: &'c TurnContext, arguments: Value, _: &'c CallScope) -> BoxFuture<'c, ToolResult> {
        Box::pin(
            async move { self.0.change(context, &arguments).await.map_or_else(ToolResult::failed, ToolResult::of) },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(owner: &str) -> TurnContext {
        TurnContext {
            owner: owner.to_owned(),
            session_key: "agent:main:x:group:C1".to_owned(),
            ..TurnContext::default()
        }
    }

    #[tokio::test]
    async fn each_person_has_a_memory_that_leads_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let notes = MemoryFiles::new(home.path());
        for owner in ["chat:7", "../../etc/passwd", "a/b", "", "x%2F"] {
            let kept = notes.change(&of(owner), &json!({"action": "add", "text": format!("I am {owner:?}")})).await;
            assert_eq!(kept, Ok(json!({"entries": [format!("I am {owner:?}")]})), "{owner:?} sees its own only");
        }
        let names: Vec<_> =
            std::fs::read_dir(home.path().join("memory")).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names.len(), 5, "{names:?}");
        assert!(notes.notified(&of("chat:7")).await.unwrap().contains("I am \"chat:7\""));
        assert_eq!(notes.notified(&of("chat:8")).await, None);
        assert!(notes.change(&of(&"x".repeat(300)), &json!({"action": "read"})).await.is_err());
    }

    #[tokio::test]
    async fn entries_are_changed_by_a_part_of_them_and_their_sum_is_bounded() {
        let home = tempfile::tempdir().unwrap();
        let notes = MemoryFiles::new(home.path());
        let act = async |action: &str, text: &str, old: &str| {
            notes.change(&of("a:1"), &json!({"action": action, "text": text, "old": old})).await
        };
        act("add", "likes\ntea", "").await.unwrap();
        act("add", "lives in Rome", "").await.unwrap();
        assert_eq!(
            act("replace", "lives in Oslo", "Rome").await,
            Ok(json!({"entries": ["likes tea", "lives in Oslo"]}))
        );
        assert!(act("remove", "", "li").await.unwrap_err().contains("2 entries contain it"));
        assert_eq!(act("remove", "", "tea").await, Ok(json!({"entries": ["lives in Oslo"]})));
        let mut refused = 0;
        for n in 0..20 {
            refused += usize::from(act("add", &format!("{n} {}", "x".repeat(550)), "").await.is_err());
        }
        assert!(refused > 5, "{refused}");
    }
}
