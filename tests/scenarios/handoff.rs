//! Handoff of a conversation to a chat, with the built host and a real library.

use hermes_tests::{Isolation, World};
use serde_json::{Value, json};

/// Returns a world in which two people may write; the group `g` is the home channel.
fn world(isolation: Isolation) -> World {
    World::with(&format!(
        "[adapter.scripted]\nisolation = \"{}\"\naccess = {{ allowed_users = [\"7\", \"8\"], operators = [\"7\", \"8\"] }}\nsocket = \"SOCKET\"\n\
         home_channel = \"#g\"\n\
         session = {{ merge_ms = 0, receipts = false, thread_sessions_per_user = true, require_mention = false }}\n",
        isolation.word()
    ))
}

fn thread_is(world: &World, answer: Value) {
    world.scripted.tell(json!({ "do": "answer", "method": "create_handoff_thread", "answer": answer }));
}

fn handed_over(world: &World, session: &str) -> Value {
    serde_json::from_str(&world.told(&["handoff", session, "scripted", "--json"])).expect("the handoff is JSON")
}

#[test]
fn a_conversation_moves_into_a_thread_where_two_people_share_it() {
    Isolation::both(|isolation| {
        let mut world = world(isolation);
        world.start();
        let session = world.let_go("boats");
        thread_is(&world, json!({ "type": "group", "id": "g", "thread": "t" }));
        let handoff = handed_over(&world, "boats");
        assert_eq!((&handoff["state"], &handoff["session"]), (&json!("completed"), &json!(session)));
        assert_eq!(handoff["resume_here"], format!("hermes-host chat --resume {session}"));
        let asked = world.scripted.wait("a thread is asked for", 20, |seen| {
            seen.iter().find(|said| said["saw"] == "create_handoff_thread").cloned()
        });
        assert_eq!((&asked["chat"]["id"], &asked["name"]), (&json!("g"), &json!("boats")));
        let (ada, bob) = (world.scripted.group("g", "7").thread("t"), world.scripted.group("g", "8").thread("t"));
        assert!(ada.hears(1)[0].contains("\"boats\" was moved to this chat"));
        ada.says("one");
        assert!(ada.hears(2)[1].contains("one"));
        bob.says("two");
        assert!(bob.hears(3)[2].contains("two"));
        let shown: Value = serde_json::from_str(&world.told(&["session", "show", &session, "--json"])).expect("JSON");
        let said: Vec<&str> = shown["messages"]
            .as_array()
            .expect("it has messages")
            .iter()
            .filter(|message| message["role"] == "user")
            .filter_map(|message| message["content"].as_str())
            .collect();
        assert_eq!(said.len(), 4, "{said:?}");
        assert_eq!((said[0], said[2], said[3]), ("boats", "[7] one", "[8] two"), "one conversation for both");
        ada.says("/return");
        assert!(ada.hears(4)[3].contains("is back in the terminal"));
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn what_cannot_be_handed_over_is_refused_in_one_sentence_with_an_exit_code() {
    let mut world = world(Isolation::InProcess);
    let refused = |world: &World, arguments: &[&str]| {
        let output = world.cli(arguments);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, words) = refused(&world, &["handoff", "boats", "scripted"]);
    assert_eq!(code, Some(69), "without a host: {words}");
    world.start();
    let session = world.let_go("boats");
    let (code, words) = refused(&world, &["handoff", "nothing", "scripted"]);
    assert!(code == Some(1) && words.contains("no session is named \"nothing\""), "{words}");
    let (code, words) = refused(&world, &["handoff", &session, "scriptd"]);
    assert!(code == Some(1) && words.contains("did you mean \"scripted\"?"), "{words}");
    let (code, words) = refused(&world, &["handoff", "cancel", &session]);
    assert!(code == Some(1) && words.contains("no handoff of session"), "{words}");
    assert!(world.told(&["handoff", "list"]).contains("no handoffs in progress"));
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn an_adapter_that_hangs_over_its_thread_keeps_nobody_waiting_and_can_be_given_up() {
    let mut world = world(Isolation::Process);
    world.start();
    let session = world.let_go("boats");
    world.scripted.tell(json!({ "do": "hang_in", "method": "create_handoff_thread" }));
    let output = world.cli(&["handoff", &session, "scripted", "--wait", "1"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("is still in progress"), "{told}");
    assert!(world.told(&["handoff", "cancel", &session]).contains("failed: not handed off"));
    let shown: Value = serde_json::from_str(&world.told(&["handoff", "show", &session, "--json"])).expect("JSON");
    assert_eq!(shown["state"], "failed");
    thread_is(&world, Value::Null);
    assert_eq!(handed_over(&world, &session)["state"], "completed", "it can be handed over again");
    assert_eq!(world.scripted.group("g", "7").hears(1).len(), 1);
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_code_of_the_terminal_brings_a_conversation_into_the_chat_that_sends_it() {
    let mut world = world(Isolation::InProcess);
    world.start();
    let session = world.let_go("boats");
    let offered: Value = serde_json::from_str(&world.told(&["handoff", "offer", &session, "--json"])).expect("JSON");
    let code = offered["code"].as_str().expect("the code is told").to_owned();
    let bob = world.scripted.chat("8");
    bob.says(&format!("/claim {code}"));
    assert!(bob.hears(1)[0].contains("Back in **boats**"));
    bob.says(&format!("/claim {code}"));
    assert!(bob.hears(2)[1].contains("No conversation is offered with this code"));
    assert!(!world.log().contains(&code), "no log tells it");
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_conversation_of_the_terminal_goes_to_a_chat_and_comes_back() {
    let mut world = world(Isolation::InProcess);
    world.start();
    world.wait_state("scripted", "online");
    assert_eq!(world.told(&["chat", "-m", "of boats"]), "of boats\n");
    let sessions: Vec<Value> =
        serde_json::from_str(&world.told(&["session", "list", "--json"])).expect("the sessions are JSON");
    let session = sessions[0]["id"].as_str().expect("it has an id").to_owned();
    world.scripted.tell(json!({ "do": "hang_in", "method": "create_handoff_thread" }));
    assert_eq!(world.cli(&["handoff", &session, "scripted", "--wait", "1"]).status.code(), Some(3));
    let meanwhile = world.cli(&["chat", "--resume", &session, "-m", "meanwhile"]);
    let told = [meanwhile.stdout, meanwhile.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(told.contains("is being handed off"), "{told}");
    world.told(&["handoff", "cancel", &session]);
    thread_is(&world, json!({ "type": "group", "id": "g", "thread": "t" }));
    assert_eq!(handed_over(&world, &session)["state"], "completed");
    let ada = world.scripted.group("g", "7").thread("t");
    ada.hears(1);
    ada.says("one");
    ada.hears(2);
    ada.says("/return");
    assert!(ada.hears(3)[2].contains(&format!("hermes-host chat --resume {session}")));
    assert_eq!(world.told(&["chat", "--resume", &session, "-m", "back again"]), "back again\n");
    let shown: Value = serde_json::from_str(&world.told(&["session", "show", &session, "--json"])).expect("JSON");
    let messages = shown["messages"].as_array().expect("it has messages");
    let said = messages.iter().filter(|message| message["role"] == "user").filter_map(|said| said["content"].as_str());
    let said: Vec<&str> = said.collect();
    assert_eq!((said.len(), said[0], said[2], said[3]), (4, "of boats", "[7] one", "back again"), "{said:?}");
    assert_eq!(world.stop(), Some(0));
}
