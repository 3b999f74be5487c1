use proptest::prelude::*;

use super::*;

fn key(chat: &Chat, sender: &Sender, policy: KeyPolicy) -> String {
    SessionKey::for_chat("main", "slack", chat, sender, policy).unwrap().to_string()
}

fn ada() -> Sender {
    Sender::new("U1")
}

const PER_USER_EVERYWHERE: KeyPolicy = KeyPolicy { group_sessions_per_user: true, thread_sessions_per_user: true };
const SHARED: KeyPolicy = KeyPolicy { group_sessions_per_user: false, thread_sessions_per_user: true };

#[test]
fn a_direct_message_is_named_by_its_chat_alone() {
    let policy = KeyPolicy::default();
    assert_eq!(key(&Chat::dm("55"), &ada(), policy), "agent:main:slack:dm:55");
    assert_eq!(key(&Chat::dm("55").in_thread("7"), &ada(), PER_USER_EVERYWHERE), "agent:main:slack:dm:55:7");
    assert_eq!(key(&Chat::new(ChatType::from("private"), "55"), &ada(), policy), "agent:main:slack:dm:55");
}

#[test]
fn without_a_chat_the_second_stable_id_names_a_direct_message_before_the_first() {
    let mut sender = ada();
    assert_eq!(key(&Chat::dm(""), &sender, KeyPolicy::default()), "agent:main:slack:dm:U1");
    sender.alt_id = Some("uuid".into());
    assert_eq!(key(&Chat::dm("").in_thread("7"), &sender, KeyPolicy::default()), "agent:main:slack:dm:uuid:7");
    sender.alt_id = Some(String::new());
    assert_eq!(key(&Chat::dm(""), &sender, KeyPolicy::default()), "agent:main:slack:dm:U1");
}

#[test]
fn a_message_without_any_identity_opens_no_session() {
    let open = |chat: &Chat, sender: &Sender| {
        SessionKey::for_chat("main", "slack", chat, sender, KeyPolicy::default()).unwrap_err()
    };
    assert_eq!(open(&Chat::dm("").in_thread("7"), &Sender::new("").named("Ada")), MissingIdentity::Dm);
    assert_eq!(open(&Chat::new(ChatType::Group, ""), &ada()), MissingIdentity::Chat("group".into()));
    assert_eq!(open(&Chat::new(ChatType::from("forum"), "1"), &ada()), MissingIdentity::Kind("forum".into()));
}

#[test]
fn a_person_is_part_of_a_group_key_where_the_policy_says_so() {
    let group = Chat::new(ChatType::Group, "C1");
    let thread = group.clone().in_thread("9");
    assert_eq!(key(&group, &ada(), KeyPolicy::default()), "agent:main:slack:group:C1::U1");
    assert_eq!(key(&group, &Sender::default(), KeyPolicy::default()), "agent:main:slack:group:C1");
    assert_eq!(key(&thread, &ada(), KeyPolicy::default()), "agent:main:slack:group:C1:9");
    assert_eq!(key(&thread, &ada(), PER_USER_EVERYWHERE), "agent:main:slack:group:C1:9:U1");
    assert_eq!(key(&group, &ada(), SHARED), "agent:main:slack:group:C1");
    assert_eq!(key(&thread, &ada(), SHARED), "agent:main:slack:group:C1:9");
}

#[test]
fn the_default_profile_is_main_and_others_have_their_own_namespace() {
    let of = |profile| SessionKey::shared(profile, "discord", &Chat::dm("1")).unwrap().to_string();
    assert_eq!(of(""), "agent:main:discord:dm:1");
    assert_eq!(of("default"), of("main"));
    assert_eq!(of("coder"), "agent:coder:discord:dm:1");
}

#[test]
fn a_colon_in_an_id_does_not_move_into_the_next_field() {
    let a = key(&Chat::dm("a:b").in_thread("c"), &ada(), KeyPolicy::default());
    let b = key(&Chat::dm("a").in_thread("b:c"), &ada(), KeyPolicy::default());
    assert_eq!(a, "agent:main:slack:dm:a%3Ab:c");
    assert_eq!(b, "agent:main:slack:dm:a:b%3Ac");
}

#[test]
fn a_key_prints_on_one_line() {
    assert_eq!(key(&Chat::dm("a\nb \u{1b}[m%"), &ada(), KeyPolicy::default()), "agent:main:slack:dm:a%0Ab%20%1B[m%25");
}

#[test]
fn the_shared_key_of_a_thread_is_what_its_members_get_by_default() {
    let thread = Chat::new(ChatType::Thread, "T").in_thread("T");
    let shared = SessionKey::shared("main", "slack", &thread).unwrap();
    assert_eq!(shared.stored(), key(&thread, &ada(), KeyPolicy::default()));
    assert!(shared.is_shared_by_several());
}

fn id() -> impl Strategy<Value = String> {
    "[ab:%\\n é@]{1,4}"
}

/// Generates keys with few and similar field values, so that many pairs nearly collide.
fn any_key() -> impl Strategy<Value = SessionKey> {
    let alike = || proptest::sample::select(vec!["a", "b", "a:b", "a%3Ab", "%", "%25", ":"]).prop_map(str::to_owned);
    let field = move || prop_oneof![3 => alike(), 1 => id()];
    let kind = proptest::sample::select(vec![ChatKind::Dm, ChatKind::Group, ChatKind::Channel, ChatKind::Thread]);
    (alike(), alike(), kind, field(), proptest::option::of(field()), proptest::option::of(field())).prop_map(
        |(profile, instance, kind, chat, thread, user)| SessionKey { profile, instance, kind, chat, thread, user },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn two_different_keys_never_print_or_store_alike(keys in proptest::collection::vec(any_key(), 40)) {
        let texts: Vec<(String, String)> = keys.iter().map(|key| (key.to_string(), key.stored())).collect();
        for (a, (printed_a, stored_a)) in keys.iter().zip(&texts) {
            for (b, (printed_b, stored_b)) in keys.iter().zip(&texts) {
                prop_assert_eq!(a == b, printed_a == printed_b, "{:?} {:?}", a, b);
                prop_assert_eq!(a == b, stored_a == stored_b);
            }
        }
    }

    #[test]
    fn a_thread_and_a_person_of_the_same_name_are_told_apart(key in any_key()) {
        let mut swapped = key.clone();
        std::mem::swap(&mut swapped.thread, &mut swapped.user);
        prop_assert_eq!(key == swapped, key.to_string() == swapped.to_string());
    }

    #[test]
    fn moving_a_character_between_neighbouring_fields_changes_the_key(a in any_key(), at in 0usize..4) {
        let mut b = a.clone();
        let cut = b.chat.char_indices().nth(at).map_or(b.chat.len(), |(i, _)| i);
        let tail = b.chat.split_off(cut);
        let thread = format!("{tail}{}", b.thread.take().unwrap_or_default());
        b.thread = Some(thread).filter(|t| !t.is_empty());
        prop_assert_eq!(a == b, a.to_string() == b.to_string());
    }

    #[test]
    fn the_user_never_enters_a_direct_message_that_has_a_chat(
        chat in id(), one in id(), other in id(), per_user: bool,
    ) {
        let policy = KeyPolicy { group_sessions_per_user: true, thread_sessions_per_user: per_user };
        let chat = Chat::dm(chat);
        prop_assert_eq!(key(&chat, &Sender::new(one), policy), key(&chat, &Sender::new(other), policy));
    }

    #[test]
    fn a_printed_key_has_no_control_character(key in any_key()) {
        prop_assert!(!key.to_string().contains(|c: char| c.is_control() || c == ' '));
    }
}
