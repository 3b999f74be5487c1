//! Tests of the echo adapter behind the ABI, and of its library file.

use hermes_adapter_sdk::testing::MockHost;
use hermes_adapter_sdk::{conformance, serde_json::json};
use object::{Object, ObjectSection, ObjectSymbol};

use super::*;

conformance!(Echo);

#[test]
fn every_configured_line_is_emitted_once_connected() {
    let host = MockHost::start::<Echo>(json!({ "user": "ann", "say": ["hello", "again"] })).expect("it starts");
    host.connect().expect("it connects");
    let _run = host.run();
    for (id, text) in [("m:ann:0", "hello"), ("m:ann:1", "again")] {
        let event = host.next_event();
        assert_eq!((event.event_id.as_str(), event.text.as_str()), (id, text));
        assert_eq!((event.chat, event.sender.id.as_str()), (Chat::dm("ann"), "ann"));
    }
}

#[test]
fn an_answer_is_announced_behind_the_prefix() {
    let host = MockHost::start::<Echo>(json!({ "prefix": "echo: " })).expect("it starts");
    let outcome = host.send(&Outgoing::text(Chat::dm("ann"), "hello"));
    assert!(matches!(outcome, SendOutcome::Delivered { .. }));
    assert_eq!(host.next_host_call("announce")["label"], json!("echo: hello"));
    assert_eq!(host.wait_log("sent").fields["text"], json!("echo: hello"));
}

/// The library, which cargo builds into the folder of this test: it is a dev-dependency.
fn library() -> Vec<u8> {
    let test = std::env::current_exe().expect("a test has a file");
    std::fs::read(test.with_file_name("libhermes_adapter_echo.so")).expect("cargo made the library")
}

#[test]
fn the_file_carries_the_manifest_and_exports_two_symbols() {
    let bytes = library();
    let file = object::File::parse(bytes.as_slice()).expect("it is an ELF file");
    let section = file.section_by_name(".hermes.adapter").expect("the section is there");
    let host = MockHost::start::<Echo>(json!({})).expect("it starts");
    assert_eq!(section.data().expect("it can be read"), host.manifest().as_bytes());

    let symbols = file.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let mut exported: Vec<&str> = symbols.map(|symbol| symbol.name().expect("it has a name")).collect();
    exported.sort_unstable();
    assert_eq!(exported, ["HERMES_ADAPTER_MANIFEST", "_1as_0lib_1header_0root_bmodule_bloader"]);
}
