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
