//! Files that contain secrets. No adapter in a process of its own may read them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::read::{Reference, reference, relative_to};
use super::tree::{Node, Value};

/// Returns the files of all secret references in a document.
pub fn secret_files(tree: &BTreeMap<String, Node>, file: &Path) -> Vec<PathBuf> {
    let mut open: Vec<&Value> = tree.values().map(|node| &node.value).collect();
    let mut found = Vec::new();
    while let Some(value) = open.pop() {
        match (reference(value), value) {
            (Some(Reference::File(path)), _) => found.push(relative_to(file, path)),
            (_, Value::Table(table)) => open.extend(table.values().map(|node| &node.value)),
            (_, Value::Array(list)) => open.extend(list.iter().map(|node| &node.value)),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn a_reference_is_found_at_any_depth() {
        let text = "[adapter.a]\ntoken = { file = \"t\" }\nlist = [{ deep = { file = \"/abs\" } }]\nname = \"file\"\n";
        let (tree, errors) = tree::parse(text);
        assert!(errors.is_empty());
        let mut found = secret_files(&tree, Path::new("/etc/h/plugins.toml"));
        found.sort();
        assert_eq!(found, [PathBuf::from("/abs"), PathBuf::from("/etc/h/t")]);
    }
}
