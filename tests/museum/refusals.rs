//! A folder of bad libraries: each is refused with its own code, and a good library next to them runs.
//!
//! The checks themselves are tested in `host/loader/src/tests/refusals.rs`; this test gives all libraries to
//! the running host at once.

use std::fs;

use hermes_tests::{Isolation, World, artefacts};

use crate::{library::Library, sources, strangers, tomorrow};

/// A bad library: its id, its file, the code of its refusal, and words in the error message.
struct Bad {
    id: &'static str,
    library: Library,
    code: &'static str,
    words: &'static [&'static str],
}

fn shelf() -> Vec<Bad> {
    let foreign = Library::read(&artefacts().fixture("foreign"));
    let bad = |id, library, code, words| Bad { id, library, code, words };
    let set = |id: &str, key: &str, value: &str| {
        foreign.clone().called(id).with_manifest(|manifest| drop(manifest.insert(key.to_owned(), value.into())))
    };
    vec![
        bad("major", set("major", "sdk", "2.0.0"), "newer_major", &["SDK 2.0.0", "SDK 1.1.0", "update hermes-host"]),
        bad("ancient", set("ancient", "sdk", "0.9.0"), "older_major", &["SDK 0.9.0", "rebuild"]),
        bad(
            "minor",
            Library::read(tomorrow::adapter()).with_manifest(|manifest| {
                manifest.remove("uses");
                manifest.insert("id".to_owned(), "minor".into());
                manifest.insert("requires_host".to_owned(), ">=1.2".into());
            }),
            "newer_minor",
            &["SDK 1.2.0", "SDK 1.1.0", "update hermes-host"],
        ),
        bad("demanding", set("demanding", "requires_host", ">=1.4"), "requires_host", &[">=1.4", "1.1.0"]),
        bad("half", foreign.clone().called("half").cut_off_after(50), "not_a_library", &["half.so"]),
        bad("crumb", foreign.clone().called("crumb").cut_off_after(0), "not_a_library", &["crumb.so"]),
        bad("nameless", foreign.clone().called("nameless").without_section(), "no_section", &[".hermes.adapter"]),
        bad("stranger", Library::read(&some_other_library()), "no_section", &["not an adapter"]),
        bad(
            "faced",
            foreign.clone().called("faced").with_two_faces(),
            "manifest_differs",
            &["differs from its section"],
        ),
        bad("tls", foreign.clone().called("tls").with_static_tls(), "static_tls", &["DF_STATIC_TLS", "allocator"]),
        bad("header", foreign.clone().called("header").with_another_header(), "wrong_header", &["ABI header"]),
        bad("retyped", Library::read(strangers::retyped()), "layout_mismatch", &["SDK 1.1.0", "rebuild"]),
        bad("widened", Library::read(strangers::widened()), "layout_mismatch", &["SDK 1.1.0", "rebuild"]),
    ]
}

/// Returns a library that is not an adapter: that of a procedural macro of this build.
fn some_other_library() -> std::path::PathBuf {
    let folder = sources::target().join(if cfg!(debug_assertions) { "debug" } else { "release" }).join("deps");
    let entries = fs::read_dir(folder).expect("the build left its parts").filter_map(Result::ok);
    let mut found: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libserde_derive-")))
        .filter(|path| path.extension().is_some_and(|extension| extension == "so"))
        .collect();
    found.sort();
    found.pop().expect("serde's macros are a library")
}

#[test]
fn every_bad_library_is_refused_by_its_code_and_the_good_one_runs() {
    let shelf = shelf();
    Isolation::both(|isolation| {
        let mut world = World::with("");
        let mut sections = "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\n\n\
                            [adapter.scripted]\nsocket = \"SOCKET\"\naccess = { allowed_users = [\"7\"] }\n\n"
            .to_owned();
        for bad in &shelf {
            bad.library.write(&world.plugins().join(format!("{}.so", bad.id)));
            sections.push_str(&format!("[adapter.{}]\nisolation = \"{}\"\n\n", bad.id, isolation.word()));
        }
        world.configure(&sections);
        world.start();
        for bad in &shelf {
            let adapter = world.wait_state(bad.id, "failed");
            assert_eq!(adapter["code"], bad.code, "{isolation:?}: {adapter}");
            let reason = adapter["reason"].as_str().unwrap_or_default();
            for word in bad.words {
                assert!(reason.contains(word), "{}: {word:?} is not in {reason:?}", bad.id);
            }
        }
        let chat = world.scripted.chat("7");
        chat.says("does the good one answer");
        chat.hears(1);
        assert!(world.runs());
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn an_adapter_that_cannot_be_asked_about_values_runs_and_says_so() {
    let mut world = World::with("");
    let library = world.install(strangers::unasked(), "unasked.so");
    world.configure(
        "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\n\n[adapter.unasked]\n\n\
         [adapter.scripted]\nsocket = \"SOCKET\"\naccess = { allowed_users = [\"7\"] }\n\n",
    );
    // Only an accepted library is asked about values.
    world.told(&["adapter", "add", library.to_str().expect("a path of ours")]);
    let checked = world.cli(&["config", "check"]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && said.contains("its settings cannot be checked before it starts"), "{said}");
    let checked = world.cli(&["adapter", "check", library.to_str().expect("a path of ours")]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success() && said.contains("are checked only at its start"), "{said}");
    world.start();
    world.wait_state("unasked", "online");
    assert_eq!(world.stop(), Some(0));
}
