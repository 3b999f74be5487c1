//! The files of routes in a folder. They contain secrets, so a file that other users can access does not count.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;

use crate::config::RouteConfig;

/// The maximum number of files in the folder.
pub(crate) const FILES_MAX: usize = 200;

/// The maximum size of a file of routes, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The identity of a file's state: inode, size, mode, and the time of the last change.
pub(crate) type Stamp = (u64, u64, u32, i64, i64);

/// Returns the files of routes in a folder, with the state of each.
pub(crate) fn file_stamps(path: &Path) -> Result<BTreeMap<OsString, Stamp>, String> {
    let cannot = |error| format!("it cannot be listed ({error})");
    let mut stamps = BTreeMap::new();
    for entry in std::fs::read_dir(path).map_err(cannot)?.flatten() {
        let is_ours = entry.path().extension().is_some_and(|extension| extension == "json");
        // The file was removed in the meantime.
        let Some(of) = std::fs::metadata(entry.path()).ok().filter(|of| is_ours && of.is_file()) else { continue };
        if stamps.len() == FILES_MAX {
            return Err(format!("it contains more than {FILES_MAX} route files"));
        }
        stamps.insert(entry.file_name(), (of.ino(), of.size(), of.mode(), of.mtime(), of.mtime_nsec()));
    }
    Ok(stamps)
}

/// Reads a file. The file contains secrets, so it must not be accessible to other users.
pub(crate) fn read_file(folder: &Path, name: &OsString) -> Result<String, String> {
    let path = folder.join(name);
    let cannot = |error| format!("it cannot be read ({error})");
    let file = File::open(&path).map_err(cannot)?;
    let is_private = |of: &Metadata| of.mode() & 0o077 == 0;
    let (about, around) = (file.metadata().map_err(cannot)?, std::fs::metadata(folder).map_err(cannot)?);
    if around.mode() & 0o022 != 0 {
        return Err(format!(
            "other users can write to the folder, so its changes are ignored; run `chmod 700 {}`",
            folder.display()
        ));
    }
    if !is_private(&about) && !is_private(&around) {
        return Err(format!(
            "other users can read its secrets, so its changes are ignored; run `chmod 600 {}`",
            path.display()
        ));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("it exceeds {FILE_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// Parses an entry of a file. Files of the Python gateway contain the chat of a target in an extra key, and
/// two keys without an effect here.
pub(crate) fn parse_entry(entry: Value) -> Result<RouteConfig, String> {
    let Value::Object(mut entry) = entry else { return Err("is not an object".to_owned()) };
    entry.remove("created_at");
    if entry.get("skills").is_some_and(|skills| skills.as_array().is_some_and(Vec::is_empty) || skills.is_null()) {
        entry.remove("skills");
    }
    if let Some(extra) = entry.remove("deliver_extra") {
        let word = |key: &str| match &extra[key] {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let thread = word("thread_id").or_else(|| word("message_thread_id"));
        let place = word("chat_id").into_iter().chain(thread).collect::<Vec<_>>().join(":");
        if let (Some(Value::String(deliver)), false) = (entry.get_mut("deliver"), place.is_empty()) {
            deliver.push(':');
            deliver.push_str(&place);
        }
    }
    // An error about a secret does not contain the secret.
    if entry.get("secret").is_some_and(|secret| !secret.is_string()) {
        return Err("has a `secret` that is not a string".to_owned());
    }
    let is_texts = |list: &Value| list.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    if entry.get("secrets").is_some_and(|secrets| !is_texts(secrets)) {
        return Err("has `secrets` that are not a list of strings".to_owned());
    }
    serde_json::from_value(Value::Object(entry)).map_err(|error| format!("cannot be parsed ({error})"))
}
