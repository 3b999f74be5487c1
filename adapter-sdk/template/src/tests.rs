//! Tests of the adapter in this process, behind the same function tables as in the host. People are TCP sockets.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use hermes_adapter_sdk::certify;
use hermes_adapter_sdk::serde_json::json;
use hermes_adapter_sdk::testing::MockHost;

use super::*;

// Every case of `hermes-host adapter certify`, with the platform that `testdata/stage.py` simulates.
certify!(LineChatAdapter);

/// Starts and connects an adapter; returns it with its announced address.
fn online() -> (MockHost, String) {
    let host = MockHost::start::<LineChatAdapter>(json!({ "listen": "127.0.0.1:0" })).expect("it starts");
    host.connect().expect("it connects");
    let announced = host.next_host_call("announce");
    (host, announced["url"].as_str().expect("an address").to_owned())
}

fn enters(address: &str, name: &str) -> TcpStream {
    let mut person = TcpStream::connect(address).expect("the door is open");
    writeln!(person, "{name}").expect("it hears");
    person
}

fn reads(person: &TcpStream) -> String {
    let mut line = String::new();
    BufReader::new(person).read_line(&mut line).expect("it tells");
    line
}

#[test]
fn what_somebody_says_is_an_event_and_the_answer_comes_back() {
    let (host, address) = online();
    let _run = host.run();
    let mut ann = enters(&address, "ann");
    writeln!(ann, "hello").expect("it hears");
    let event = host.next_event();
    assert_eq!((event.sender.id.as_str(), event.text.as_str()), ("ann", "hello"));
    assert_eq!(event.chat, Chat::dm("ann"));
    let outcome = host.send(&Outgoing::text(event.chat, "hello, ann"));
    assert!(matches!(outcome, SendOutcome::Delivered { .. }), "{outcome:?}");
    assert_eq!(reads(&ann), "hello, ann\n");
}

#[test]
fn a_room_is_a_group_and_everybody_hears_it() {
    let (host, address) = online();
    let _run = host.run();
    let (mut ann, mut bob) = (enters(&address, "ann"), enters(&address, "bob"));
    writeln!(bob, "I am here").expect("it hears");
    host.next_event();
    writeln!(ann, "#tea who is here?").expect("it hears");
    let event = host.next_event();
    assert_eq!((&event.chat, event.text.as_str()), (&Chat::new(ChatType::Group, "tea"), "who is here?"));
    assert!(matches!(host.send(&Outgoing::text(event.chat, "both")), SendOutcome::Delivered { .. }));
    assert_eq!((reads(&ann), reads(&bob)), ("#tea both\n".to_owned(), "#tea both\n".to_owned()));
}

#[test]
fn what_is_for_somebody_who_is_not_there_was_not_sent() {
    let (host, _) = online();
    let outcome = host.send(&Outgoing::text(Chat::dm("carl"), "are you there?"));
    assert!(matches!(outcome, SendOutcome::NotSent { .. }), "{outcome:?}");
}
