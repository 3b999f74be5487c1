//! Files that people drop or write: libraries and the configuration.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
};

use hermes_config::Sources;
use hermes_tests::artefacts;
use tempfile::TempDir;

use crate::ring::{Target, texts};

/// Bytes of one change: where, and what.
const CHANGE_BYTES: usize = 12;

/// A real library with some of its bytes changed. The input is a list of changes, not the library.
pub fn library() -> Target {
    let change = |region: u8, offset: u32, value: u64| {
        [&[region, 0, 0, 0][..], &offset.to_le_bytes(), &(value as u32).to_le_bytes()].concat()
    };
    let seeds = vec![
        Vec::new(),
        change(0, 0x28, 1),
        change(1, 8, u64::from(u32::MAX)),
        change(2, 0x18, 0x7fff_ffff),
        [change(3, 0, 0), change(4, 100, 3)].concat(),
        change(5, 4096, 0),
    ];
    Target::opened("library", seeds, &[], || {
        let bench = Bench::new();
        Box::new(move |bytes| {
            bench.change(bytes);
            let read = hermes_loader::inspect(&bench.path);
            bench.mend();
            if let Ok(manifest) = read {
                assert!(!manifest.id.is_empty() && manifest.id.len() <= 32, "an id that is none");
            }
        })
    })
}

/// A copy of a library that is changed and mended again, since writing all of it anew takes too long.
struct Bench {
    _folder: TempDir,
    path: PathBuf,
    file: File,
    whole: Vec<u8>,
    /// Offset and length of each region.
    regions: Vec<(u64, u64)>,
    changed: std::cell::RefCell<Vec<(u64, usize)>>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("x.so");
        let whole = fs::read(artefacts().fixture("foreign")).expect("it was built");
        fs::write(&path, &whole).expect("the folder is ours");
        let file = File::options().read(true).write(true).open(&path).expect("the file is ours");
        let number = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("eight bytes"));
        let length = whole.len() as u64;
        let manifest = find(&whole, b"{\"schema\":1");
        let names = find(&whole, b".hermes.adapter\0");
        // e_phoff and e_shoff: the tables that a reader follows.
        let regions = vec![
            (0, 64),
            (number(0x20), 56 * 16),
            (number(0x28).min(length - 1), 64 * 64),
            (manifest, 1024),
            (names.saturating_sub(256), 512),
            (0, length),
        ];
        Self { _folder: folder, path, file, whole, regions, changed: std::cell::RefCell::default() }
    }

    fn change(&self, bytes: &[u8]) {
        let length = self.whole.len() as u64;
        for change in bytes.chunks_exact(CHANGE_BYTES).take(16) {
            let (start, size) = self.regions[usize::from(change[0]) % self.regions.len()];
            let offset = u64::from(u32::from_le_bytes(change[4..8].try_into().expect("four bytes")));
            let at = (start + offset % size).min(length - 1);
            if change[1] == 0xff {
                // Cut off here.
                self.file.set_len(at).expect("the file is ours");
                self.changed.borrow_mut().push((at, self.whole.len() - at as usize));
                return;
            }
            let value = &change[8..8 + (1 + usize::from(change[2] % 4)).min(self.whole.len() - at as usize)];
            self.file.write_all_at(value, at).expect("the file is ours");
            self.changed.borrow_mut().push((at, value.len()));
        }
    }

    fn mend(&self) {
        for (at, length) in self.changed.borrow_mut().drain(..) {
            let from = at as usize;
            self.file.write_all_at(&self.whole[from..from + length], at).expect("the file is ours");
        }
    }
}

fn find(bytes: &[u8], what: &[u8]) -> u64 {
    bytes.windows(what.len()).rposition(|window| window == what).expect("it is in the library") as u64
}

const TOML: &[&str] = &[
    "[adapter.a]\n",
    "[[",
    "]]",
    "[host]\n",
    "[agent]\n",
    "= ",
    "\"\"\"",
    "'''",
    "${ENV}",
    "{ env = \"X\" }",
    "{ file = \"x\" }",
    "true",
    "0x7fffffffffffffff",
    "1979-05-27T07:32:00Z",
    "inf",
    "a.b.c = 1\n",
    "#",
    "isolation = \"process\"\n",
    "allowed_users = [\"*\"]\n",
    "command = [\"a\"]\n",
    "[{",
];

/// `plugins.toml`.
pub fn configuration() -> Target {
    let seeds = [
        hermes_config::sample(&BTreeMap::new(), &BTreeMap::new()).into_bytes(),
        include_bytes!("../../../plugins.toml").to_vec(),
    ];
    let more = texts(&[
        "[host]\nhome = \"x\"\n[agent]\nruntime = \"echo\"\n[adapter.a]\nplugin = \"b\"\naccess = { allowed_users = [\"1\"] }\n",
        "[adapter.telegram]\ntoken = \"${TOKEN}\"\nhome_channel = \"-100:7\"\nisolation = \"process\"\n",
    ]);
    Target::opened("configuration", seeds.into_iter().chain(more).collect(), TOML, || {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Box::new(move |bytes| load(folder.path(), bytes))
    })
}

fn load(folder: &Path, bytes: &[u8]) {
    let file = folder.join("plugins.toml");
    fs::write(&file, bytes).expect("the folder is ours");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("the file is ours");
    let sources = Sources {
        config: Some(file),
        home: Some(folder.join("home")),
        env: BTreeMap::from([("TOKEN".to_owned(), "hunter2-hunter2".to_owned())]),
        cwd: folder.to_owned(),
        here: false,
    };
    match hermes_config::load(sources) {
        Ok(config) => {
            let shown = format!("{config:?}");
            assert!(!shown.contains("hunter2"), "a secret of the environment is shown");
        }
        Err(problems) => {
            let told = problems.to_string();
            assert!(!told.trim().is_empty(), "a refusal without words");
            assert!(!told.contains("hunter2"), "a secret of the environment is told");
        }
    }
}
