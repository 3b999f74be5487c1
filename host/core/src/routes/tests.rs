use hermes_protocol::ChatType;
use proptest::prelude::*;

use super::*;

const POLICY: KeyPolicy = KeyPolicy { group_sessions_per_user: true, thread_sessions_per_user: false };

fn route(key: &SessionKey, origin: &Chat, session: &str) -> Route {
    Route {
        key: key.stored(),
        session: session.into(),
        profile: "main".into(),
        instance: "slack".into(),
        origin: origin.clone(),
        shared: false,
        participates: false,
    }
}

fn group() -> Chat {
    Chat::new(ChatType::Group, "C1")
}

fn own_key(chat: &Chat, user: &str) -> SessionKey {
    SessionKey::for_chat("main", "slack", chat, &Sender::new(user), POLICY).unwrap()
}

fn session_of<'a>(table: &'a RouteTable, chat: &Chat, user: &str) -> Option<&'a str> {
    let (_, route) = table.resolve("main", "slack", chat, &Sender::new(user), POLICY).unwrap();
    route.map(|route| route.session.as_str())
}

#[test]
fn a_shared_route_is_tried_before_the_participants_own() {
    let mut table = RouteTable::new();
    table.bind(route(&own_key(&group(), "U1"), &group(), "own"));
    let shared = SessionKey::shared("main", "slack", &group()).unwrap();
    table.bind(Route { shared: true, ..route(&shared, &group(), "handed over") });

    assert_eq!(session_of(&table, &group(), "U1"), Some("handed over"));
    assert_eq!(session_of(&table, &group(), "U2"), Some("handed over"));

    table.unbind(&shared.stored());
    assert_eq!(session_of(&table, &group(), "U1"), Some("own"));
    assert_eq!(session_of(&table, &group(), "U2"), None);
}

#[test]
fn a_route_without_participant_that_is_not_shared_does_not_catch_members() {
    let mut table = RouteTable::new();
    let plain = SessionKey::shared("main", "slack", &group()).unwrap();
    table.bind(route(&plain, &group(), "of an anonymous sender"));
    assert_eq!(session_of(&table, &group(), "U1"), None);
    assert_eq!(session_of(&table, &group(), ""), Some("of an anonymous sender"));
}

/// Returns a route that a handoff bound for all members of `chat`.
fn handed_over(chat: &Chat, session: &str) -> Route {
    let key = SessionKey::shared("main", "slack", chat).unwrap();
    Route { shared: true, ..route(&key, chat, session) }
}

#[test]
fn a_handoff_to_a_chat_has_the_new_threads_of_that_chat_and_no_thread_with_a_conversation_of_its_own() {
    let mut in_parent = Chat::new(ChatType::Thread, "99").in_thread("99");
    in_parent.parent = Some("10".to_owned());
    let cases = [
        (Chat::dm("D1"), Chat::dm("D1").in_thread("17.5")),
        (group(), group().in_thread("17.5")),
        (Chat::new(ChatType::Group, "10"), in_parent.clone()),
        (Chat::new(ChatType::Channel, "10"), in_parent),
        (Chat::new(ChatType::Channel, "-100"), Chat::new(ChatType::Channel, "-100").in_thread("4")),
    ];
    for (chat, thread) in cases {
        let mut table = RouteTable::new();
        table.bind(handed_over(&chat, "handed over"));
        let (key, _) = table.resolve("main", "slack", &thread, &Sender::new("U1"), POLICY).unwrap();
        assert_eq!(key, SessionKey::shared("main", "slack", &chat).unwrap(), "{thread:?}: `/new` there ends it");
        assert_eq!(session_of(&table, &thread, "U2"), Some("handed over"));
        assert_eq!(session_of(&table, &Chat::new(ChatType::Group, "other").in_thread("17.5"), "U1"), None);
        table.bind(route(&own_key(&thread, "U1"), &thread, "own"));
        assert_eq!(session_of(&table, &thread, "U1"), Some("own"), "{thread:?}");
    }
}

#[test]
fn a_handoff_to_a_thread_of_a_direct_chat_has_what_is_new_in_that_chat_and_one_in_a_group_does_not() {
    let mut table = RouteTable::new();
    let seed = Chat::dm("D1").in_thread("17.5");
    table.bind(handed_over(&seed, "handed over"));
    for chat in [Chat::dm("D1"), Chat::dm("D1").in_thread("18.0")] {
        assert_eq!(session_of(&table, &chat, "U1"), Some("handed over"), "{chat:?}");
    }
    assert_eq!(session_of(&table, &Chat::dm("D11"), "U1"), None);
    table.bind(handed_over(&Chat::dm("D1").in_thread("17.6"), "a later one"));
    table.bind(route(&own_key(&Chat::dm("D1").in_thread("19.0"), "U1"), &Chat::dm("D1").in_thread("19.0"), "own"));
    assert_eq!(session_of(&table, &Chat::dm("D1"), "U1"), Some("a later one"));
    assert_eq!(session_of(&table, &seed, "U1"), Some("handed over"));
    table.bind(route(&own_key(&Chat::dm("D1"), "U1"), &Chat::dm("D1"), "main"));
    assert_eq!(session_of(&table, &Chat::dm("D1"), "U1"), Some("main"), "it has a conversation of its own");

    table.bind(handed_over(&group().in_thread("17.5"), "of the group"));
    assert_eq!(session_of(&table, &group(), "U1"), None);
    assert_eq!(session_of(&table, &group().in_thread("18.0"), "U1"), None);
}

#[test]
fn a_thread_that_a_handoff_to_its_chat_has_needs_no_mention_until_the_handoff_is_over() {
    let mut table = RouteTable::new();
    let (shared, thread) = (handed_over(&group(), "s"), group().in_thread("9"));
    table.join("main", "slack", &thread, &shared.key);
    assert!(!table.participates("main", "slack", &thread), "there is no such route");
    table.bind(shared.clone());
    table.join("main", "slack", &group(), &shared.key);
    table.join("main", "slack", &thread, &shared.key);
    assert!(table.participates("main", "slack", &thread));
    assert!(!table.participates("main", "slack", &group()));
    table.bind(Route { session: "compressed".into(), ..shared.clone() });
    assert!(table.participates("main", "slack", &thread));
    table.unbind(&shared.key);
    assert!(!table.participates("main", "slack", &thread));
    for n in 0..=JOINED_MAX {
        table.bind(shared.clone());
        table.join("main", "slack", &group().in_thread(n.to_string()), &shared.key);
    }
    assert_eq!(table.joined.len(), JOINED_MAX);
}

#[test]
fn private_finds_the_route_of_a_dm() {
    let mut table = RouteTable::new();
    table.bind(route(&own_key(&Chat::dm("5"), "5"), &Chat::dm("5"), "s"));
    assert_eq!(session_of(&table, &Chat::new(ChatType::from("private"), "5"), "5"), Some("s"));
}

#[test]
fn the_agent_takes_part_in_a_thread_until_its_last_route_there_is_gone() {
    let mut table = RouteTable::new();
    let thread = group().in_thread("9");
    let key = own_key(&thread, "U1");
    table.bind(Route { participates: true, ..route(&key, &thread, "s") });
    assert!(table.participates("main", "slack", &thread));
    assert!(!table.participates("main", "slack", &group()));
    assert!(!table.participates("main", "other", &thread));

    table.bind(route(&key, &thread, "s2"));
    assert!(!table.participates("main", "slack", &thread), "a new row without the flag replaces the old one");
    assert_eq!(table.of_session(&"s".into()).count(), 0);
    assert_eq!(table.len(), 1);
}

proptest! {
    #[test]
    fn the_table_agrees_with_a_list(steps in proptest::collection::vec((0u8..4, 0u8..3, any::<bool>(), any::<bool>()), 0..40)) {
        let mut table = RouteTable::new();
        let mut list: Vec<Route> = Vec::new();
        for (step, (user, thread, bind, participates)) in steps.into_iter().enumerate() {
            let chat = if thread == 0 { group() } else { group().in_thread(thread.to_string()) };
            let key = own_key(&chat, &format!("U{user}"));
            list.retain(|route| route.key != key.stored());
            if bind {
                let row = Route { participates, ..route(&key, &chat, &step.to_string()) };
                list.push(row.clone());
                table.bind(row);
            } else {
                table.unbind(&key.stored());
            }
            for probe in 0..3u8 {
                let chat = if probe == 0 { group() } else { group().in_thread(probe.to_string()) };
                let expected = list.iter().any(|route| route.participates && route.origin == chat);
                prop_assert_eq!(table.participates("main", "slack", &chat), expected);
            }
            prop_assert_eq!(table.len(), list.len());
        }
    }
}
