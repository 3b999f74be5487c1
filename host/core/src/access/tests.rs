use hermes_protocol::{Addressed, ChatType, EventKind, GroupDefault, ReplyTo};
use proptest::prelude::*;

use super::addressed::mentions;
use super::*;
use crate::commands::CommandId;

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn dm(sender: Sender) -> Event {
    Event::message("m:5:1", Chat::dm("5"), sender, "hello")
}

fn in_group(sender: Sender) -> Event {
    Event::message("m:g:1", Chat::new(ChatType::Group, "g"), sender, "hello")
}

fn telegram(own: InstanceAccess) -> AccessPolicy {
    AccessPolicy { instances: BTreeMap::from([("telegram".to_owned(), own)]), ..AccessPolicy::default() }
}

fn tier(policy: &AccessPolicy, event: Event, trust: Trust) -> Option<Tier> {
    policy.admit("telegram", event, &Grants::new(), trust).ok().map(|event| event.tier())
}

fn denial(policy: &AccessPolicy, event: Event) -> Denial {
    policy.admit("telegram", event, &Grants::new(), Trust::None).unwrap_err().denial
}

#[test]
fn nobody_is_admitted_by_default() {
    let nothing = AccessPolicy::default();
    assert_eq!(tier(&nothing, dm(Sender::new("5")), Trust::Roles), None);
    assert_eq!(tier(&telegram(InstanceAccess::default()), in_group(Sender::new("5")), Trust::None), None);
}

#[test]
fn a_denied_event_comes_back_whole() {
    let denied = AccessPolicy::default().admit("telegram", dm(Sender::new("5")), &Grants::new(), Trust::None);
    assert_eq!(denied.unwrap_err().event.text, "hello");
}

#[test]
fn a_display_name_admits_nobody() {
    let policy = telegram(InstanceAccess { allowed_users: set(&["Ada", "g"]), ..InstanceAccess::default() });
    assert_eq!(tier(&policy, dm(Sender::new("6").named("Ada")), Trust::Upstream), Some(Tier::User));
    assert_eq!(tier(&policy, dm(Sender::new("6").named("Ada")), Trust::None), None);
    assert_eq!(tier(&policy, in_group(Sender::new("6")), Trust::None), None, "a chat id is no user id");
}

#[test]
fn whoever_was_removed_is_shut_out_unless_a_role_that_nobody_knows_of_could_let_them_in() {
    let own = InstanceAccess { allowed_users: set(&["5"]), ..InstanceAccess::default() };
    let shut_out = |policy: &AccessPolicy, who: &Sender, trust| {
        policy.shuts_out("telegram", &Chat::dm("5"), who, &Grants::new(), trust)
    };
    let listed = telegram(own.clone());
    assert!(!shut_out(&listed, &Sender::new("5"), Trust::None));
    assert!(shut_out(&listed, &Sender::new("6"), Trust::Roles));
    let by_role = telegram(InstanceAccess { allowed_roles: set(&["crew"]), ..own });
    assert!(!shut_out(&by_role, &Sender::new("6"), Trust::Roles));
    assert!(shut_out(&by_role, &Sender::new("6"), Trust::None), "roles count for nothing there");
    let mut guest = Sender::new("6");
    guest.roles = vec!["guest".to_owned()];
    assert!(shut_out(&by_role, &guest, Trust::Roles));
}

#[test]
fn trust_needs_the_operators_word_and_the_adapters() {
    let mut proving = Capabilities::default();
    proving.authorizes_upstream = true;
    assert_eq!(Trust::of(true, &proving), Trust::Upstream);
    assert_eq!(Trust::of(true, &Capabilities::default()), Trust::Roles);
    assert_eq!(Trust::of(false, &proving), Trust::None);
}

#[test]
fn the_operator_role_counts_only_from_a_trusted_upstream() {
    let policy = telegram(InstanceAccess { allow_all: true, ..InstanceAccess::default() });
    let sender = || Sender::new("5").with_role(OPERATOR_ROLE);
    assert_eq!(tier(&policy, dm(sender()), Trust::Upstream), Some(Tier::Operator));
    assert_eq!(tier(&policy, dm(sender()), Trust::Roles), Some(Tier::User));
    assert_eq!(tier(&policy, dm(sender()), Trust::None), Some(Tier::User));
}

#[test]
fn roles_admit_only_under_trust() {
    let policy = telegram(InstanceAccess { allowed_roles: set(&["77"]), ..InstanceAccess::default() });
    let sender = || Sender::new("5").with_role("77");
    assert_eq!(tier(&policy, in_group(sender()), Trust::Roles), Some(Tier::User));
    assert_eq!(tier(&policy, in_group(sender()), Trust::None), None);
    assert_eq!(tier(&policy, in_group(Sender::new("5").with_role("78")), Trust::Roles), None);
}

#[test]
fn who_stands_in_the_only_list_is_the_operator() {
    let only = telegram(InstanceAccess { allowed_users: set(&["5", "*"]), ..InstanceAccess::default() });
    assert_eq!(tier(&only, dm(Sender::new("5")), Trust::None), Some(Tier::Operator));
    assert_eq!(tier(&only, dm(Sender::new("6")), Trust::None), Some(Tier::User), "anybody is never the operator");
    assert_eq!(tier(&only, dm(Sender::new("*")), Trust::None), None);

    let staffed = AccessPolicy { admins: set(&["telegram:9"]), ..only.clone() };
    assert_eq!(tier(&staffed, dm(Sender::new("5")), Trust::None), Some(Tier::User));
    assert_eq!(tier(&staffed, dm(Sender::new("9")), Trust::None), Some(Tier::Admin));

    let elsewhere = AccessPolicy { admins: set(&["slack:9"]), ..only };
    assert_eq!(tier(&elsewhere, dm(Sender::new("5")), Trust::None), Some(Tier::Operator));
}

#[test]
fn several_ids_on_the_only_list_are_users_and_none_is_the_operator() {
    let two = telegram(InstanceAccess { allowed_users: set(&["5", "6"]), ..InstanceAccess::default() });
    for id in ["5", "6"] {
        assert_eq!(tier(&two, dm(Sender::new(id)), Trust::None), Some(Tier::User));
        assert!(two.reason("telegram", &Sender::new(id), Tier::User).contains("2 ids"));
    }
    assert_eq!(two.without_operator("telegram"), Some(2));
    // The global list and the section's list are counted together.
    let mixed = AccessPolicy {
        allowed_users: set(&["telegram:6", "slack:7"]),
        ..telegram(InstanceAccess { allowed_users: set(&["5"]), ..InstanceAccess::default() })
    };
    assert_eq!(tier(&mixed, dm(Sender::new("5")), Trust::None), Some(Tier::User));
    assert_eq!(tier(&mixed, dm(Sender::new("6")), Trust::None), Some(Tier::User));
    assert_eq!((mixed.without_operator("telegram"), mixed.without_operator("slack")), (Some(2), None));
    // The same id in both lists is one person; the wildcard is not counted.
    let same = AccessPolicy {
        allowed_users: set(&["telegram:5"]),
        ..telegram(InstanceAccess { allowed_users: set(&["5", "*"]), ..InstanceAccess::default() })
    };
    assert_eq!(tier(&same, dm(Sender::new("5")), Trust::None), Some(Tier::Operator));
    assert_eq!(same.without_operator("telegram"), None);
    // A named operator resolves the ambiguity.
    let named = telegram(InstanceAccess {
        allowed_users: set(&["5", "6"]),
        operators: set(&["5"]),
        ..InstanceAccess::default()
    });
    assert_eq!(tier(&named, dm(Sender::new("5")), Trust::None), Some(Tier::Operator));
    assert_eq!(tier(&named, dm(Sender::new("6")), Trust::None), Some(Tier::User));
    assert_eq!(named.without_operator("telegram"), None);
}

#[test]
fn a_global_list_holds_ids_of_one_instance_each() {
    let policy = AccessPolicy { allowed_users: set(&["telegram:5", "slack:6", "7"]), ..AccessPolicy::default() };
    assert_eq!(tier(&policy, dm(Sender::new("5")), Trust::None), Some(Tier::Operator));
    assert_eq!(tier(&policy, dm(Sender::new("6")), Trust::None), None);
    assert_eq!(tier(&policy, dm(Sender::new("7")), Trust::None), None, "a bare id matches nothing");
}

#[test]
fn the_second_stable_id_counts_like_the_first() {
    let policy = telegram(InstanceAccess { operators: set(&["uuid"]), ..InstanceAccess::default() });
    let mut sender = Sender::new("5");
    sender.alt_id = Some("uuid".into());
    assert_eq!(tier(&policy, dm(sender), Trust::None), Some(Tier::Operator));
}

#[test]
fn a_listed_group_admits_its_members_and_its_threads_but_no_direct_message() {
    let policy = telegram(InstanceAccess { allowed_groups: set(&["g"]), ..InstanceAccess::default() });
    assert_eq!(tier(&policy, in_group(Sender::default()), Trust::None), Some(Tier::User));
    let mut event = in_group(Sender::new("6"));
    event.chat = Chat::new(ChatType::Thread, "t");
    assert_eq!(tier(&policy, event.clone(), Trust::None), None);
    event.chat.parent = Some("g".into());
    assert_eq!(tier(&policy, event, Trust::None), Some(Tier::User));
    let mut direct = dm(Sender::new("6"));
    direct.chat.id = "g".into();
    assert_eq!(tier(&policy, direct, Trust::None), None);
}

#[test]
fn a_global_allow_all_ends_where_any_list_begins() {
    let open = AccessPolicy { allow_all: true, ..AccessPolicy::default() };
    assert_eq!(tier(&open, dm(Sender::new("5")), Trust::None), Some(Tier::User));
    assert_eq!(tier(&open, dm(Sender::default()), Trust::None), None, "nobody in particular is not everybody");
    for own in [
        InstanceAccess { allowed_users: set(&["1"]), ..InstanceAccess::default() },
        InstanceAccess { allowed_groups: set(&["1"]), ..InstanceAccess::default() },
        InstanceAccess { allowed_roles: set(&["1"]), ..InstanceAccess::default() },
        InstanceAccess { operators: set(&["1"]), ..InstanceAccess::default() },
        InstanceAccess { admins: set(&["1"]), ..InstanceAccess::default() },
    ] {
        let listed = AccessPolicy { allow_all: true, ..telegram(own) };
        assert_eq!(tier(&listed, dm(Sender::new("5")), Trust::None), None);
    }
    let global = AccessPolicy { allow_all: true, operators: set(&["telegram:1"]), ..AccessPolicy::default() };
    assert_eq!(tier(&global, dm(Sender::new("5")), Trust::None), None);
    let elsewhere = AccessPolicy { allow_all: true, operators: set(&["slack:1"]), ..AccessPolicy::default() };
    assert_eq!(tier(&elsewhere, dm(Sender::new("5")), Trust::None), Some(Tier::User));
}

#[test]
fn whoever_was_paired_is_a_user_on_that_instance_only() {
    let grant = Grant {
        instance: "telegram".into(),
        user: "5".into(),
        name: String::new(),
        granted_by: String::new(),
        at_ms: 0,
    };
    let nobody = Grant { user: String::new(), ..grant.clone() };
    let grants: Grants = [grant, nobody].into_iter().collect();
    let policy = AccessPolicy::default();
    let admit =
        |instance, sender| policy.admit(instance, dm(sender), &grants, Trust::None).ok().map(|event| event.tier());
    assert_eq!(admit("telegram", Sender::new("5")), Some(Tier::User));
    assert_eq!(admit("slack", Sender::new("5")), None);
    assert_eq!(admit("telegram", Sender::default()), None);
}

#[test]
fn a_stranger_is_offered_a_code_only_directly_and_only_without_a_list() {
    let policy = AccessPolicy::default();
    assert_eq!(denial(&policy, dm(Sender::new("5"))), Denial::Stranger);
    assert!(matches!(denial(&policy, in_group(Sender::new("5"))), Denial::Silent { .. }));
    assert!(matches!(denial(&policy, dm(Sender::new("5").bot(true))), Denial::Silent { .. }));
    assert!(matches!(denial(&policy, dm(Sender::default())), Denial::Silent { .. }));

    let listed = telegram(InstanceAccess { allowed_users: set(&["1"]), ..InstanceAccess::default() });
    assert!(matches!(denial(&listed, dm(Sender::new("5"))), Denial::Unlisted { .. }), "but may be handed one");
    let staffed = telegram(InstanceAccess { admins: set(&["1"]), ..InstanceAccess::default() });
    assert_eq!(denial(&staffed, dm(Sender::new("5"))), Denial::Stranger, "who may approve is no list of who may speak");

    let ignoring = telegram(InstanceAccess { strangers: Some(UnknownSenders::Ignore), ..InstanceAccess::default() });
    assert!(matches!(denial(&ignoring, dm(Sender::new("5"))), Denial::Unlisted { .. }));
    let overridden = AccessPolicy {
        strangers: UnknownSenders::Ignore,
        ..telegram(InstanceAccess { strangers: Some(UnknownSenders::Pair), ..InstanceAccess::default() })
    };
    assert_eq!(denial(&overridden, dm(Sender::new("5"))), Denial::Stranger);
}

#[test]
fn a_user_runs_what_the_operator_listed_beyond_their_tier() {
    let policy = telegram(InstanceAccess { user_commands: set(&["pair"]), ..InstanceAccess::default() });
    let pair = Command::of(CommandId::Pair);
    let group = Chat::new(ChatType::Group, "g");
    assert!(policy.may_run("telegram", &Chat::dm("5"), Tier::User, pair));
    assert!(!policy.may_run("telegram", &group, Tier::User, pair));
    assert!(!policy.may_run("slack", &Chat::dm("5"), Tier::User, pair));
    assert!(policy.may_run("slack", &group, Tier::Admin, pair));
    assert!(policy.may_run("slack", &group, Tier::User, Command::of(CommandId::Stop)));
}

#[test]
fn what_the_host_replays_gains_no_rights() {
    let resumed = Authorized::<Event>::host(dm(Sender::new("5")), HostCause::Resume);
    assert_eq!((resumed.tier(), resumed.origin()), (Tier::User, Origin::Host(HostCause::Resume)));
    assert_eq!(resumed.map(|event| event.text).into_inner(), "hello");
}

fn rules() -> AddressRules {
    AddressRules::default()
}

#[test]
fn a_direct_message_is_always_meant() {
    assert!(addressed(&dm(Sender::new("5")), &rules(), false));
    let mut private = dm(Sender::new("5"));
    private.chat.kind = ChatType::from("private");
    assert!(addressed(&private, &rules(), false));
}

#[test]
fn a_group_message_is_meant_when_something_says_so() {
    let plain = in_group(Sender::new("5"));
    assert!(!addressed(&plain, &rules(), false));
    for facts in
        [Addressed::new(true, false, false), Addressed::new(false, true, false), Addressed::new(false, false, true)]
    {
        assert!(addressed(&plain.clone().addressed(facts), &rules(), false));
    }
    let mut reply = plain.clone();
    let mut to = ReplyTo::new("1");
    to.is_self = true;
    reply.reply_to = Some(to);
    assert!(addressed(&reply, &rules(), false));
    assert!(addressed(&plain.clone().of_kind(EventKind::Choice), &rules(), false));
    assert!(addressed(&plain, &AddressRules { free_chats: set(&["g"]), ..rules() }, false));
    assert!(addressed(&plain, &AddressRules { mention_patterns: vec!["Hello".into()], ..rules() }, false));
}

#[test]
fn the_operators_rule_wins_over_the_manifests() {
    let plain = in_group(Sender::new("5"));
    let all = AddressRules { default: GroupDefault::All, ..rules() };
    assert!(addressed(&plain, &all, false));
    assert!(!addressed(&plain, &AddressRules { require_mention: Some(true), ..all }, false));
    assert!(addressed(&plain, &AddressRules { require_mention: Some(false), ..rules() }, false));
    assert!(!addressed(&plain, &AddressRules { default: GroupDefault::from("later"), ..rules() }, false));
}

#[test]
fn taking_part_counts_in_threads_only() {
    let mut event = in_group(Sender::new("5"));
    assert!(!addressed(&event, &rules(), true));
    event.chat.thread = Some("7".into());
    assert!(addressed(&event, &rules(), true));
    assert!(!addressed(&event, &rules(), false));
}

#[test]
fn a_bot_is_meant_only_by_an_inline_mention() {
    let bot = || Sender::new("5").bot(true);
    let free = AddressRules { require_mention: Some(false), free_chats: set(&["g"]), ..rules() };
    assert!(!addressed(&in_group(bot()), &free, true));
    assert!(!addressed(&in_group(bot()).addressed(Addressed::new(false, true, true)), &free, true));
    assert!(!addressed(&dm(bot()), &free, true));
    assert!(addressed(&in_group(bot()).addressed(Addressed::new(true, false, false)), &rules(), false));
}

#[test]
fn who_writes_as_the_channel_itself_is_meant_where_the_operator_or_the_words_say_so() {
    let mut post = in_group(Sender::new("c"));
    (post.chat.kind, post.chat.id) = (ChatType::Channel, "c".into());
    let all = AddressRules { default: GroupDefault::All, ..rules() };
    assert!(!addressed(&post, &all, false), "it may be another bot, whose answer would be answered");
    assert!(addressed(&post.clone().addressed(Addressed::new(true, false, false)), &all, false));
    assert!(addressed(&post, &AddressRules { free_chats: set(&["c"]), ..all.clone() }, false));
    assert!(addressed(&post, &AddressRules { require_mention: Some(false), ..all.clone() }, false));
    post.sender.id = "5".into();
    assert!(addressed(&post, &all, false), "somebody who is known");
    assert!(!speaks_as_channel(&post));
}

#[test]
fn a_pattern_matches_a_word_of_its_own() {
    for (text, pattern) in [
        ("Hermes, are you there?", "hermes"),
        ("hey HERMES", "hermes"),
        ("(hermes)", "Hermes"),
        ("ask @hermes now", "@hermes"),
        ("hey  you", "hey  you"),
        ("ÄRGER!", "ärger"),
        ("助手你好", "助手"),
    ] {
        assert!(mentions(text, pattern), "{pattern:?} in {text:?}");
    }
    for (text, pattern) in [
        ("hermestic", "hermes"),
        ("theHermes", "hermes"),
        ("me@hermes", "@hermes"),
        ("hermes_2", "hermes"),
        ("hermes2", "hermes"),
        ("hello", ""),
        ("hello", "  "),
        ("", "hermes"),
    ] {
        assert!(!mentions(text, pattern), "{pattern:?} in {text:?}");
    }
}

proptest! {
    #[test]
    fn a_pattern_between_spaces_always_matches(before in "[a-zé ]{0,8}", word in "[a-zé]{1,6}", after in "[a-zé ]{0,8}") {
        let text = format!("{before} {} {after}", word.to_uppercase());
        prop_assert!(mentions(&text, &word));
    }

    #[test]
    fn no_text_and_no_pattern_breaks_the_search(text in "\\PC{0,40}", pattern in "\\PC{0,6}") {
        let _ = mentions(&text, &pattern);
    }
}

/// A random access case.
#[derive(Clone, Debug)]
struct Case {
    policy: AccessPolicy,
    grants: Grants,
    event: Event,
    trust: Trust,
}

/// A minimal reference model of admission.
fn model(case: &Case) -> bool {
    let (global, none) = (&case.policy, InstanceAccess::default());
    let own = global.instances.get("telegram").unwrap_or(&none);
    let sender = &case.event.sender;
    let known: Vec<&str> = [Some(&sender.id), sender.alt_id.as_ref()]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .filter(|id| !id.is_empty())
        .collect();
    let is_in = |list: &BTreeSet<String>, prefix: &str| known.iter().any(|id| list.contains(&format!("{prefix}{id}")));
    let lists = [&own.allowed_users, &own.operators, &own.admins];
    let global_lists = [&global.allowed_users, &global.operators, &global.admins];
    let any_list = lists.iter().any(|list| !list.is_empty())
        || !own.allowed_groups.is_empty()
        || !own.allowed_roles.is_empty()
        || global_lists.iter().any(|list| list.iter().any(|entry| entry.starts_with("telegram:")));
    case.trust == Trust::Upstream
        || (own.allow_all && !known.is_empty())
        || lists.iter().any(|list| is_in(list, ""))
        || (own.allowed_users.contains("*") && !known.is_empty())
        || (case.event.chat.kind != ChatType::Dm && own.allowed_groups.contains(&case.event.chat.id))
        || global_lists.iter().any(|list| is_in(list, "telegram:"))
        || (case.trust == Trust::Roles && sender.roles.iter().any(|role| own.allowed_roles.contains(role)))
        || case.grants.iter().any(|grant| grant.instance == "telegram" && known.contains(&grant.user.as_str()))
        || (global.allow_all && !any_list && !known.is_empty())
}

fn some_of(ids: &'static [&'static str]) -> impl Strategy<Value = BTreeSet<String>> {
    prop_oneof![3 => Just(BTreeSet::new()), 1 => proptest::sample::subsequence(ids, 1..=ids.len()).prop_map(|ids| set(&ids))]
}

fn any_case() -> impl Strategy<Value = Case> {
    let own = (
        proptest::bool::weighted(0.2),
        some_of(&["1", "2", "*"]),
        some_of(&["g", "h"]),
        some_of(&["r"]),
        some_of(&["1", "3"]),
        some_of(&["2", "3"]),
    )
        .prop_map(|(allow_all, allowed_users, allowed_groups, allowed_roles, operators, admins)| InstanceAccess {
            allow_all,
            allowed_users,
            allowed_groups,
            allowed_roles,
            operators,
            admins,
            ..InstanceAccess::default()
        });
    let policy = (
        any::<bool>(),
        some_of(&["telegram:1", "slack:2"]),
        some_of(&["telegram:3", "slack:1"]),
        some_of(&["telegram:2", "slack:3"]),
        own,
    )
        .prop_map(|(allow_all, allowed_users, operators, admins, own)| AccessPolicy {
            allow_all,
            allowed_users,
            operators,
            admins,
            ..telegram(own)
        });
    let id = || proptest::sample::select(vec!["", "1", "2", "3", "4"]);
    let sender =
        (id(), proptest::option::of(id()), any::<bool>(), any::<bool>()).prop_map(|(id, alt_id, role, operator)| {
            let mut sender = Sender::new(id).named("1");
            sender.alt_id = alt_id.map(str::to_owned);
            sender.roles = [(role, "r"), (operator, OPERATOR_ROLE)]
                .into_iter()
                .filter(|(has, _)| *has)
                .map(|(_, role)| role.to_owned())
                .collect();
            sender
        });
    let trust = proptest::sample::select(vec![Trust::None, Trust::None, Trust::Roles, Trust::Roles, Trust::Upstream]);
    let grants = proptest::option::of((proptest::sample::select(vec!["telegram", "slack"]), id()));
    (policy, sender, any::<bool>(), trust, grants).prop_map(|(policy, sender, direct, trust, grant)| Case {
        policy,
        event: if direct { dm(sender) } else { in_group(sender) },
        trust,
        grants: grant
            .map(|(instance, user)| Grant {
                instance: instance.into(),
                user: user.into(),
                name: String::new(),
                granted_by: String::new(),
                at_ms: 0,
            })
            .into_iter()
            .collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn admission_agrees_with_the_model(case in any_case()) {
        let admitted = case.policy.admit("telegram", case.event.clone(), &case.grants, case.trust);
        prop_assert_eq!(admitted.is_ok(), model(&case));
    }

    #[test]
    fn more_than_a_user_is_only_whom_the_operator_wrote_down(case in any_case()) {
        let Ok(admitted) = case.policy.admit("telegram", case.event.clone(), &case.grants, case.trust) else {
            return Ok(());
        };
        let own = &case.policy.instances["telegram"];
        let sender = &case.event.sender;
        let known = [Some(sender.id.clone()), sender.alt_id.clone()];
        let written = known.iter().flatten().filter(|id| !id.is_empty()).any(|id| {
            let global = format!("telegram:{id}");
            let policy = &case.policy;
            [&own.allowed_users, &own.operators, &own.admins].iter().any(|list| list.contains(id))
                || [&policy.allowed_users, &policy.operators, &policy.admins].iter().any(|list| list.contains(&global))
        });
        let vouched = case.trust == Trust::Upstream && sender.roles.iter().any(|role| role == OPERATOR_ROLE);
        prop_assert!(admitted.tier() == Tier::User || written || vouched);
    }

    #[test]
    fn a_stranger_in_a_group_is_met_with_silence(case in any_case()) {
        if let Err(denied) = case.policy.admit("telegram", case.event.clone(), &case.grants, case.trust)
            && case.event.chat.kind != ChatType::Dm
        {
            let is_silent = matches!(denied.denial, Denial::Silent { .. });
            prop_assert!(is_silent, "no code is offered there, nor taken");
        }
    }
}
