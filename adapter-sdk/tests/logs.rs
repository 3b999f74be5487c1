//! Tests that log records reach the host of their instance.

use hermes_adapter_sdk::protocol::SendOutcome;
use hermes_adapter_sdk::serde_json::json;
use hermes_adapter_sdk::testing::MockHost;

use crate::adapters::{Puppet, text};

#[test]
fn two_instances_keep_their_logs_apart() {
    let one = MockHost::setup("one").start::<Puppet>(json!({})).expect("it starts");
    let two = MockHost::setup("two").start::<Puppet>(json!({})).expect("it starts");
    for host in [&one, &two, &one] {
        let _sent: SendOutcome = host.send(&text("log"));
    }
    let count = |host: &MockHost, text: &str| host.logs().iter().filter(|line| line.message() == text).count();
    assert_eq!((count(&one, "slow link"), count(&two, "slow link")), (2, 1));
    for (host, name) in [(&one, "one"), (&two, "two")] {
        assert_eq!(host.wait_log("born").fields["instance"], json!(name));
    }
}

#[test]
fn a_record_has_level_target_fields_and_span() {
    let host = MockHost::start::<Puppet>(json!({})).expect("it starts");
    let _sent: SendOutcome = host.send(&text("log"));
    let line = host.wait_log("slow link");
    assert_eq!((line.level, line.target.as_str()), (2, "puppet::net"));
    assert_eq!(line.fields["tries"], json!(3));
    assert_eq!(line.fields["ok"], json!(false));
    assert_eq!(line.fields["span"], json!("sending{part=1}"));
}

#[test]
fn the_hosts_level_is_honoured() {
    let host = MockHost::setup("test").max_level(2).start::<Puppet>(json!({})).expect("it starts");
    let _sent: SendOutcome = host.send(&text("log"));
    let messages: Vec<String> = host.logs().iter().map(|line| line.message().to_owned()).collect();
    assert_eq!(messages, ["slow link"]);
}

#[test]
fn a_record_of_the_blocking_pool_reaches_the_same_host() {
    let one = MockHost::setup("one").start::<Puppet>(json!({})).expect("it starts");
    let two = MockHost::setup("two").start::<Puppet>(json!({})).expect("it starts");
    let _sent: SendOutcome = one.send(&text("log elsewhere"));
    assert_eq!(one.wait_log("from the pool").level, 3);
    assert!(two.logs().iter().all(|line| line.message() != "from the pool"));
}
