//! The refusals of files, tested with patched copies of a good library.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use object::{Object, ObjectSection};

use super::support::*;
use crate::discover::{admit, discover, startable};
use crate::runner::Report;
use crate::{
    AdapterEvent, IsolationChoice, Judgement, LoadError, Place, PluginsLock, accept, check, elf, inspect, judge, schema,
};

/// Replaces every occurrence, length by length.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut found = 0;
    let mut at = 0;
    while at + from.len() <= bytes.len() {
        if &bytes[at..at + from.len()] == from {
            bytes[at..at + from.len()].copy_from_slice(to);
            found += 1;
        }
        at += 1;
    }
    assert!(found > 0, "{} is not in the library", String::from_utf8_lossy(from));
    bytes
}

fn good() -> Vec<u8> {
    fs::read(hostile_library()).unwrap()
}

/// Returns the library with another manifest in its section, while `manifest()` is unchanged.
fn with_section(change: impl FnOnce(String) -> String) -> Vec<u8> {
    let mut bytes = good();
    let file = object::read::elf::ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    let section = file.section_by_name(".hermes.adapter").unwrap();
    let json = change(String::from_utf8(section.data().unwrap().to_vec()).unwrap());
    let index = section.index().0;
    let table = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap());
    let header = usize::try_from(table).unwrap() + index * 64;
    let end = bytes.len() as u64;
    bytes[header + 0x18..header + 0x20].copy_from_slice(&end.to_le_bytes());
    bytes[header + 0x20..header + 0x28].copy_from_slice(&(json.len() as u64).to_le_bytes());
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

fn refused_as_file(home: &Home, bytes: &[u8]) -> LoadError {
    let path = home.plugins().join("libbad.so");
    fs::write(&path, bytes).unwrap();
    inspect(&path).unwrap_err()
}

#[test]
fn a_good_library_tells_its_manifest_without_being_opened() {
    let manifest = inspect(&hostile_library()).unwrap();
    assert_eq!(manifest.id, "hostile");
    assert_eq!(manifest.capabilities.text.limit, 4096);
    assert_eq!(manifest.secrets, ["token"]);
}

#[test]
fn what_is_no_library_for_this_machine_is_refused_by_its_bytes() {
    let home = Home::empty();
    let good = good();
    assert_eq!(refused_as_file(&home, b"just text").code(), "not_a_library");
    assert_eq!(refused_as_file(&home, b"").code(), "not_a_library");
    let mut other_class = good.clone();
    other_class[4] = 1;
    assert_eq!(refused_as_file(&home, &other_class).code(), "wrong_machine");
    let mut other_machine = good.clone();
    other_machine[18] = 0xf3;
    other_machine[19] = 0;
    let refused = refused_as_file(&home, &other_machine);
    assert_eq!(refused.code(), "wrong_machine");
    assert!(refused.to_string().contains("riscv64"), "{refused}");
    let mut program = good.clone();
    program[16] = 2;
    assert_eq!(refused_as_file(&home, &program).code(), "not_a_library");
}

#[test]
fn a_library_cut_off_anywhere_is_refused_and_never_read_past_its_end() {
    let home = Home::empty();
    let good = good();
    for part in 1..32 {
        let cut = &good[..good.len() * part / 32];
        let refused = refused_as_file(&home, cut);
        assert!(matches!(refused.code(), "not_a_library" | "no_section" | "bad_manifest"), "{part}: {refused}");
    }
    for bytes in [16, 63, 64, 100] {
        assert_eq!(refused_as_file(&home, &good[..bytes]).code(), "not_a_library");
    }
}

#[test]
fn garbage_in_the_headers_never_panics() {
    let home = Home::empty();
    let good = good();
    let mut seed = 0x9e37_79b9_u64;
    for _ in 0..200 {
        let mut bytes = good[..4096].to_vec();
        for _ in 0..8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = 16 + usize::try_from(seed >> 33).unwrap() % (bytes.len() - 16);
            bytes[at] = u8::try_from(seed >> 24 & 0xff).unwrap();
        }
        refused_as_file(&home, &bytes);
    }
}

#[test]
fn a_library_without_the_section_is_no_adapter() {
    let home = Home::empty();
    let refused = refused_as_file(&home, &replaced(&good(), b".hermes.adapter\0", b".hermes.adaptex\0"));
    assert_eq!(refused.code(), "no_section");
}

#[test]
fn a_library_with_static_thread_local_storage_is_refused() {
    let home = Home::empty();
    let mut bytes = good();
    let at = dynamic_flags(&bytes);
    bytes[at] |= 0x10;
    assert_eq!(refused_as_file(&home, &bytes).code(), "static_tls");
}

/// Offset of the value of DT_FLAGS.
fn dynamic_flags(bytes: &[u8]) -> usize {
    use object::read::elf::{Dyn, FileHeader, ProgramHeader};
    let header = object::elf::FileHeader64::<object::Endianness>::parse(bytes).unwrap();
    let endian = header.endian().unwrap();
    for segment in header.program_headers(endian, bytes).unwrap() {
        let Some(entries) = segment.dynamic(endian, bytes).unwrap() else { continue };
        let index = entries.iter().position(|entry| entry.d_tag(endian) == u64::from(object::elf::DT_FLAGS));
        let start = usize::try_from(segment.p_offset(endian)).unwrap();
        return start + index.expect("Rust's libraries have DT_FLAGS") * 16 + 8;
    }
    panic!("it has no dynamic segment");
}

#[test]
fn another_c_library_is_refused_by_name() {
    let home = Home::empty();
    let refused = refused_as_file(&home, &replaced(&good(), b"\0libc.so.6\0", b"\0ld-musl-x\0"));
    assert_eq!(refused.code(), "wrong_libc");
}

#[test]
fn each_version_that_does_not_fit_has_its_own_refusal() {
    let home = Home::empty();
    let older = refused_as_file(&home, &replaced(&good(), br#""sdk":"1.1.0""#, br#""sdk":"0.9.0""#));
    assert_eq!(older.code(), "older_major");
    assert!(older.to_string().contains("SDK 0.9.0") && older.to_string().contains("SDK 1."), "{older}");
    let newer = refused_as_file(&home, &replaced(&good(), br#""sdk":"1.1.0""#, br#""sdk":"2.0.0""#));
    assert_eq!(newer.code(), "newer_major");
    assert!(newer.to_string().contains("update hermes-host"), "{newer}");
    let minor = with_section(|json| json.replace(r#""sdk":"1.1.0""#, r#""sdk":"1.9.0","requires_host":">=1.9""#));
    assert_eq!(refused_as_file(&home, &minor).code(), "newer_minor");
    let requires = with_section(|json| json.replace(r#""abi":1"#, r#""abi":1,"requires_host":"<1""#));
    assert_eq!(refused_as_file(&home, &requires).code(), "requires_host");
}

#[test]
fn a_newer_minor_that_allows_this_host_is_read_with_a_warning() {
    let home = Home::empty();
    let path = home.library();
    fs::write(&path, replaced(&good(), br#""sdk":"1.1.0""#, br#""sdk":"1.9.0""#)).unwrap();
    let library = elf::read(&path).unwrap();
    assert!(library.warning.unwrap().contains("SDK 1.9.0"));
}

#[test]
fn a_manifest_that_does_not_add_up_is_refused() {
    let home = Home::empty();
    let changes: [&dyn Fn(String) -> String; 6] = [
        &|json| json.replacen('{', "[", 1),
        &|json| json.replace(r#""id":"hostile""#, r#""id":"../hostile""#),
        &|json| json.replace(r#""abi":1"#, r#""abi":7"#),
        &|json| json.replace(r#""schema":1"#, r#""schema":2"#),
        &|json| json.replace(r#""sdk":"1.1.0""#, r#""sdk":"one""#),
        &|json| format!("{json}{}", " ".repeat(70_000)),
    ];
    for change in changes {
        assert_eq!(refused_as_file(&home, &with_section(change)).code(), "bad_manifest");
    }
}

#[test]
fn only_what_ships_with_the_binary_counts_beside_it() {
    let home = Home::hostile();
    fs::copy(home.library(), home.path().join("libhermes_adapter_hostile.so")).unwrap();
    fs::copy(home.library(), home.path().join("libstranger.so")).unwrap();
    // A library of something else, as a build leaves it there.
    let other = replaced(&good(), b".hermes.adapter", b".hermes.nothing");
    fs::write(home.path().join("libmacros.so"), other).unwrap();
    let mut search = home.settings().search;
    search.beside = Some(home.path().to_owned());
    search.folders.push(home.path().to_owned());
    let found = discover(&search);
    let places: Vec<(String, Place)> = found
        .iter()
        .map(|found| (found.path.file_name().unwrap().to_string_lossy().into_owned(), found.place))
        .collect();
    let expected = [
        ("libhermes_adapter_hostile.so".to_owned(), Place::Beside),
        ("libstranger.so".to_owned(), Place::Folder),
        ("libhostile.so".to_owned(), Place::Folder),
    ];
    assert_eq!(places, expected);
}

#[test]
fn a_file_is_accepted_at_its_first_load_and_a_changed_one_refused_until_it_is_added() {
    let home = Home::hostile();
    let settings = home.settings();
    let first = find_and_admit(&home).unwrap();
    assert_eq!(PluginsLock::read(home.path()).unwrap().get("hostile").unwrap().sha256, first);
    append(&home.library());
    let refused = find_and_admit(&home).unwrap_err();
    assert_eq!(refused.code(), "changed_hash");
    assert!(refused.to_string().contains("hermes-host adapter add"), "{refused}");
    let copies = fs::read_dir(home.path().join("run/plugins")).unwrap().count();
    assert_eq!(copies, 1, "refused bytes do not stay");
    let mut open = settings.clone();
    open.pin = false;
    assert!(admit("hostile", &open).is_ok());
    accept(&home.library(), "operator", &settings).unwrap();
    assert_ne!(find_and_admit(&home).unwrap(), first);
}

fn find_and_admit(home: &Home) -> Result<String, LoadError> {
    admit("hostile", &home.settings()).map(|admitted| admitted.sha256)
}

fn append(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes.push(0);
    fs::write(path, bytes).unwrap();
}

#[test]
fn what_lies_in_two_places_is_listed_once_with_both_and_what_differs_is_refused() {
    let home = Home::hostile();
    let other = home.plugins().join("libother.so");
    fs::copy(home.library(), &other).unwrap();
    let listed = || startable(discover(&home.settings().search));
    let [one] = &listed()[..] else { panic!("it is listed once: {:?}", listed()) };
    let said = one.warning.as_deref().unwrap_or_default();
    assert!(said.contains("libother.so") && said.contains("is the same library as"), "{said}");
    append(&other);
    let two = listed();
    assert_eq!(two.len(), 2);
    assert_eq!(two[1].manifest.as_ref().unwrap_err().code(), "same_id");
}

#[test]
fn a_pipe_is_refused_without_waiting_for_a_writer() {
    let home = Home::empty();
    let pipe = home.plugins().join("pipe.so");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let refused = inspect(&pipe).unwrap_err();
    assert_eq!(refused.code(), "not_regular");
    assert!(!refused.to_string().contains("remove"), "it may be anybody's: {refused}");
}

#[test]
fn two_different_files_of_one_id_are_both_refused_and_two_equal_ones_are_not() {
    let home = Home::hostile();
    let other = home.plugins().join("libother.so");
    fs::copy(home.library(), &other).unwrap();
    assert!(find_and_admit(&home).is_ok());
    append(&other);
    let refused = find_and_admit(&home).unwrap_err();
    assert_eq!(refused.code(), "same_id");
    assert!(refused.to_string().contains("libother.so"), "{refused}");
}

#[test]
fn a_plugin_without_a_file_is_refused_and_a_broken_file_of_its_name_explains_why() {
    let home = Home::empty();
    assert_eq!(find_and_admit(&home).unwrap_err().code(), "no_file");
    fs::write(home.library(), "text").unwrap();
    assert_eq!(find_and_admit(&home).unwrap_err().code(), "not_a_library");
    fs::copy(hostile_library(), home.library()).unwrap();
    fs::set_permissions(home.library(), fs::Permissions::from_mode(0o757)).unwrap();
    assert_eq!(find_and_admit(&home).unwrap_err().code(), "world_writable");
}

/// Starts the library with these bytes and returns the code of its refusal.
async fn refused_at_start(isolation: IsolationChoice, bytes: Vec<u8>) -> &'static str {
    let home = Home::empty();
    fs::write(home.library(), bytes).unwrap();
    let mut host = Host::start(home.settings(), vec![plan(isolation, "ok")]);
    host.event(|event| match event {
        AdapterEvent::State { state, .. } if state.word() == "failed" => Some(()),
        _ => None,
    })
    .await;
    let status = host.adapters.statuses().remove(0);
    assert_eq!(status.state, "failed");
    assert!(status.reason.is_some());
    status.code.unwrap()
}

/// Checks the refusals that need an opened library; both kinds of isolation refuse the same.
async fn refused_when_opened(isolation: IsolationChoice) {
    let root = b"_1as_0lib_1header_0root_bmodule_bloader";
    let no_root = replaced(&good(), root, b"_1as_0lib_1header_0root_bmodule_bloadex");
    assert_eq!(refused_at_start(isolation, no_root).await, "no_root_symbol");
    let differs = with_section(|json| json.replace(r#""label":"Hostile""#, r#""label":"Friendly""#));
    assert_eq!(refused_at_start(isolation, differs).await, "manifest_differs");
    let header = replaced(&good(), b"abi stable library for Rust", b"abi stable library for Rusx");
    assert_eq!(refused_at_start(isolation, header).await, "wrong_header");
    let needs = replaced(&good(), b"\0libgcc_s.so.1\0", b"\0libgcc_x.so.1\0");
    assert_eq!(refused_at_start(isolation, needs).await, "dlopen");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_opened_is_refused_inside() {
    refused_when_opened(IsolationChoice::InProcess).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_opened_is_refused_in_a_child() {
    refused_when_opened(IsolationChoice::Process).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_that_are_laid_out_in_another_way_are_refused() {
    // The names of the types are part of the layout.
    let bytes = replaced(&good(), b"hermes-adapter-abi", b"hermes-adapter-abx");
    assert_eq!(refused_at_start(IsolationChoice::InProcess, bytes).await, "layout_mismatch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_minor_runs() {
    let home = Home::empty();
    fs::write(home.library(), replaced(&good(), br#""sdk":"1.1.0""#, br#""sdk":"1.9.0""#)).unwrap();
    let host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "ok")]);
    online(&host.one()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_is_asked_in_a_child_and_kept() {
    let home = Home::hostile();
    let settings = home.settings();
    accept(&home.library(), "operator", &settings).unwrap();
    let mut first = schema(&home.library(), &settings).await.unwrap();
    assert!(first["properties"]["mode"].is_object(), "{first}");
    let kept: Vec<_> = fs::read_dir(home.path().join("run/schemas")).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    first["kept"] = true.into();
    fs::write(kept[0].path(), first.to_string()).unwrap();
    assert_eq!(schema(&home.library(), &settings).await.unwrap()["kept"], true, "it is not asked again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_whose_secret_is_no_key_of_its_configuration_is_not_started() {
    let home = Home::hostile();
    accept(&home.library(), "operator", &home.settings()).unwrap();
    schema(&home.library(), &home.settings()).await.unwrap();
    let kept = fs::read_dir(home.path().join("run/schemas")).unwrap().flatten().next().unwrap().path();
    fs::write(kept, r#"{"properties": {"mode": {"type": "string"}}}"#).unwrap();
    let host = Host::start(home.settings(), vec![plan(IsolationChoice::InProcess, "ok")]);
    until(&host.one(), "failed", |state| state.word() == "failed").await;
    let status = host.adapters.statuses().remove(0);
    assert_eq!(status.code, Some("bad_manifest"));
    assert!(status.reason.unwrap().contains("`token` in `secrets`"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_with_an_unknown_key_is_refused_before_the_adapter_sees_it() {
    let home = Home::hostile();
    let mut plan = plan(IsolationChoice::InProcess, "ok");
    plan.config["tokn"] = "x".into();
    let host = Host::start(home.settings(), vec![plan]);
    until(&host.one(), "failed", |state| state.word() == "failed").await;
    let status = host.adapters.statuses().remove(0);
    assert_eq!(status.code, Some("config_refused"));
    assert!(status.reason.unwrap().contains("did you mean token?"));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_judged_by_the_adapter_itself_in_a_child_that_makes_no_instance() {
    let home = Home::hostile();
    let (settings, library) = (home.settings(), home.library());
    accept(&library, "operator", &settings).unwrap();
    // Its constructor would abort the process.
    let right = serde_json::json!({ "mode": "abort_in_create", "token": "fits" });
    assert_eq!(judge(&library, &right, &[], &settings).await.unwrap(), Judgement::Right);
    let wrong = serde_json::json!({ "token": "unfit" });
    let sentence = "`token` is none of mine in two lines; ask for another".to_owned();
    assert_eq!(judge(&library, &wrong, &[], &settings).await.unwrap(), Judgement::Wrong(sentence));
    let unknown = serde_json::json!({ "mode": "no such mode" });
    let judged = judge(&library, &unknown, &[], &settings).await.unwrap();
    assert!(matches!(&judged, Judgement::Wrong(sentence) if sentence.contains("`mode`")), "{judged:?}");
    fs::write(&library, "text").unwrap();
    assert_eq!(judge(&library, &right, &[], &settings).await.unwrap_err().code(), "not_a_library");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_adapter_says_of_its_values_shows_no_secret() {
    let home = Home::hostile();
    let config = serde_json::json!({ "token": "unfit", "mode": "a-secret-in-the-wrong-place" });
    let secrets = ["a-secret-in-the-wrong-place".to_owned()];
    accept(&home.library(), "operator", &home.settings()).unwrap();
    let Judgement::Wrong(sentence) = judge(&home.library(), &config, &secrets, &home.settings()).await.unwrap() else {
        panic!("there is no such mode")
    };
    assert!(sentence.contains("***") && !sentence.contains("a-secret"), "{sentence}");
}

#[test]
fn what_a_library_of_an_older_sdk_reports_says_that_it_cannot_be_asked() {
    let report: Report = serde_json::from_str(r#"{"refused": null, "schema": "{}"}"#).unwrap();
    assert!(!report.judges && report.wrong.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_walks_every_step_and_stops_at_the_first_refusal() {
    let home = Home::hostile();
    let settings = home.settings();
    let lines = check(&home.library(), &settings).await;
    let steps: Vec<(&str, bool)> = lines.iter().map(|line| (line.name, line.ok)).collect();
    let all = ["file", "elf", "versions", "pin", "load", "schema", "secrets", "values"];
    assert_eq!(steps, all.map(|name| (name, true)), "{lines:?}");

    fs::write(home.library(), "text").unwrap();
    let lines = check(&home.library(), &settings).await;
    assert_eq!(lines.last().unwrap().code, Some("not_a_library"));
    assert_eq!(lines.len(), 2);

    let root = b"_1as_0lib_1header_0root_bmodule_bloader";
    fs::write(home.library(), replaced(&good(), root, b"_1as_0lib_1header_0root_bmodule_bloadex")).unwrap();
    let lines = check(&home.library(), &settings).await;
    assert_eq!((lines.last().unwrap().name, lines.last().unwrap().code), ("load", Some("no_root_symbol")));
}
