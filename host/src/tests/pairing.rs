//! Pairing of unknown senders, and the secrecy of its details.

use std::time::Duration;

use hermes_protocol::{Addressed, Chat, ChatType, Event, RefusalKind, Sender};

use super::world::{Setting, World};
use crate::engine::messages::{DeliveryNews, HostEvent};
use crate::engine::outbox::queue::HELD_MAX;
use hermes_store::DeliveryFilter;

const MINUTE: Duration = Duration::from_secs(60);

/// Creates a world with an admin only, in which time stands still.
fn world() -> World {
    with("access = { admins = [\"1\"] }")
}

fn with(section: &str) -> World {
    World::with(Setting { section: section.to_owned(), clock_stands: true, ..Setting::default() })
}

/// Returns the code in a text.
fn code_in(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let code = words.into_iter().find(|word| hermes_core::pairing::is_code(word) && word.to_uppercase() == **word);
    code.unwrap_or_else(|| panic!("a code in {text:?}")).to_owned()
}

/// Returns the offer to `who`.
fn offered(world: &World, who: &str) -> String {
    let before = world.chat(who).heard().len();
    world.chat(who).says("hello");
    let offer = world.chat(who).hears(before + 1).remove(before);
    assert!(offer.contains("hermes-host pairing approve fake"), "{offer}");
    code_in(&offer)
}

/// Returns whether `who` gets a reply to a further message.
fn is_met(world: &World, who: &str) -> bool {
    let before = world.chat(who).heard().len();
    world.chat(who).says("hello again");
    world.settled();
    world.chat(who).heard().len() > before
}

/// Returns the reply to an admin.
fn ordered(world: &World, order: &str) -> String {
    let admin = world.chat("1");
    let before = admin.heard().len();
    admin.says(order);
    admin.hears(before + 1).remove(before)
}

#[test]
fn a_stranger_gets_a_code_one_reminder_and_silence_for_ten_minutes() {
    let world = world();
    let first = offered(&world, "99");
    assert!(is_met(&world, "99"), "one reminder");
    assert!(world.chat("99").heard()[1].contains("still waiting for approval"));
    assert!(!is_met(&world, "99"), "and no more");
    world.passes(10 * MINUTE);
    let second = offered(&world, "99");
    for _ in 0..6 {
        let said = ordered(&world, &format!("/pair approve {first}"));
        assert!(said.contains("no longer valid") && said.contains("a newer code"), "{said}");
    }
    for nothing in ["/pair approve", "/pair approve -"] {
        assert!(ordered(&world, nothing).contains("code"), "that is no guess");
    }
    assert!(ordered(&world, &format!("/pair approve {second}")).contains("99 can now write"));
    let heard = world.chat("99").hears(5);
    assert!(heard[3].contains("I'll answer your first message next"), "{heard:?}");
    assert_eq!(heard[4], "hello", "the message for which the second code was given");
    world.chat("99").says("and now");
    assert!(world.chat("99").hears(6)[5].contains("and now"));
}

#[test]
fn a_sender_who_is_let_in_is_notified_and_their_first_message_is_answered_once_also_across_restarts() {
    let mut world = world();
    let code = offered(&world, "99");
    assert!(is_met(&world, "99"), "one reminder");
    world.settled();
    world.crash();
    world.start();
    assert!(ordered(&world, &format!("/pair approve {code}")).contains("99 can now write"));
    let heard = world.chat("99").hears(4);
    assert!(heard[2].contains("You have access now. I'll answer your first message next."), "{heard:?}");
    assert_eq!(heard[3], "hello");
    world.settled();
    world.crash();
    world.start();
    world.chat("99").says("and now");
    assert_eq!(world.chat("99").hears(5)[4], "and now", "nothing is said twice");
    world.settled();
    assert_eq!(world.chat("99").heard().len(), 5);
}

#[test]
fn a_sender_who_is_let_in_by_an_invitation_gets_an_answer_to_their_first_message_too() {
    let world = world();
    offered(&world, "99");
    let code = code_in(&ordered(&world, "/pair"));
    world.chat("99").says(&code);
    let heard = world.chat("99").hears(3);
    assert!(heard[1].starts_with("Welcome"), "{heard:?}");
    assert_eq!(heard[2], "hello");
    world.settled();
    assert_eq!(world.chat("99").heard().len(), 3);
}

#[test]
fn a_command_for_which_a_code_was_given_has_the_rights_of_a_user_once_its_sender_is_let_in() {
    let world = world();
    world.chat("99").says("/pair");
    let code = code_in(&world.chat("99").hears(1)[0]);
    assert!(ordered(&world, &format!("/pair approve {code}")).contains("99 can now write"));
    let heard = world.chat("99").hears(3);
    assert_eq!(heard[2], "/pair is only for admins of this host.");
}

#[test]
fn three_strangers_are_offered_codes_at_once_and_take_none_from_invitations() {
    let world = world();
    for who in ["91", "92", "93"] {
        offered(&world, who);
    }
    assert!(!is_met(&world, "94"));
    let code = code_in(&ordered(&world, "/pair"));
    assert_eq!(ordered(&world, "/pair list"), "- 91\n- 92\n- 93\n- an invitation");
    world.chat("95").says(&code);
    assert!(world.chat("95").hears(1)[0].starts_with("Welcome"));
    world.passes(60 * MINUTE);
    assert_eq!(ordered(&world, "/pair list"), "No pending requests here.");
    offered(&world, "94");
}

#[test]
fn no_code_is_offered_in_a_group_to_a_bot_beside_a_list_or_where_strangers_are_ignored() {
    let group = Chat::new(ChatType::Group, "g");
    let stranger = Sender::new("99");
    for (section, chat, sender) in [
        ("", group.clone(), stranger.clone()),
        ("", Chat::dm("99"), stranger.clone().bot(true)),
        ("access = { allowed_users = [\"7\"] }", Chat::dm("99"), stranger.clone()),
        ("access = { allowed_groups = [\"g\"] }", Chat::dm("99"), stranger.clone()),
        ("access = { strangers = \"ignore\" }", Chat::dm("99"), stranger),
    ] {
        let world = with(section);
        let event = Event::message("m:1", chat, sender, "hello").addressed(Addressed::new(true, false, false));
        world.block_on(world.give(&event)).unwrap();
        world.settled();
        assert!(world.platform.sent().is_empty(), "{section}");
    }
}

#[test]
fn a_code_that_an_admin_hands_out_lets_in_who_sends_it_also_beside_a_list() {
    for section in [
        "access = { admins = [\"1\"] }",
        "access = { allowed_users = [\"1\"] }",
        "access = { admins = [\"1\"], strangers = \"ignore\" }",
    ] {
        let world = with(section);
        let code = code_in(&ordered(&world, "/pair"));
        let friend = world.chat("99");
        friend.says(&format!("{}-{}", &code[..4].to_lowercase(), &code[4..]));
        assert!(friend.hears(1)[0].starts_with("Welcome"), "{section}");
        friend.says("and now");
        assert_eq!(friend.hears(2)[1], "and now", "{section}");
        world.chat("98").says(&code);
        world.settled();
        assert!(!world.chat("98").heard().iter().any(|text| text.starts_with("Welcome")), "it works once: {section}");
    }
}

#[test]
fn a_code_that_was_handed_out_lets_nobody_in_from_a_group() {
    let world = with("access = { allowed_users = [\"1\"] }");
    let code = code_in(&ordered(&world, "/pair"));
    let group = Chat::new(ChatType::Group, "g");
    let event = Event::message("m:g:1", group.clone(), Sender::new("99"), &code);
    world.block_on(world.give(&event.addressed(Addressed::new(true, false, false)))).unwrap();
    world.settled();
    assert!(world.talk(group, "99").heard().is_empty());
    world.chat("99").says(&code);
    assert!(world.chat("99").hears(1)[0].starts_with("Welcome"), "it is still open");
}

#[test]
fn a_code_may_be_typed_as_people_type_and_is_good_for_an_hour() {
    let world = world();
    let code = offered(&world, "99");
    world.passes(60 * MINUTE - Duration::from_secs(1));
    let typed = format!("{} - {}", &code[..4].to_lowercase(), &code[4..]);
    assert!(ordered(&world, &format!("/pair approve {typed}")).contains("99 can now write"));
    let late = offered(&world, "98");
    world.passes(60 * MINUTE);
    assert!(ordered(&world, &format!("/pair approve {late}")).contains("no longer valid"));
}

#[test]
fn five_wrong_codes_lock_out_their_admin_for_an_hour_also_across_a_restart_and_nobody_else() {
    let mut world = with("access = { admins = [\"1\", \"2\"] }");
    let code = offered(&world, "99");
    for left in (1..=4).rev() {
        assert!(ordered(&world, "/pair approve AAAAAAAA").contains(&format!("after {left} more wrong")));
    }
    assert!(ordered(&world, "/pair approve AAAAAAAA").contains("too many wrong codes"));
    assert!(ordered(&world, &format!("/pair approve {code}")).contains("too many wrong codes"));
    let invitation = code_in(&ordered(&world, "/pair"));
    world.settled();
    world.crash();
    world.start();
    world.chat("96").says(&invitation);
    assert!(world.chat("96").hears(1)[0].starts_with("Welcome"), "invitations are open meanwhile");
    world.passes(60 * MINUTE - Duration::from_secs(1));
    let code = offered(&world, "97");
    assert!(ordered(&world, &format!("/pair approve {code}")).contains("too many wrong codes"));
    let other = world.chat("2");
    other.says(&format!("/pair approve {code}"));
    assert!(other.hears(1)[0].contains("97 can now write"), "another admin is not locked out");
    world.passes(MINUTE);
    let code = offered(&world, "98");
    assert!(ordered(&world, &format!("/pair approve {code}")).contains("98 can now write"));
}

#[test]
fn wrong_invitations_lock_out_the_stranger_who_sent_them_and_no_invitation() {
    let mut world = with("access = { allowed_users = [\"1\"] }");
    let code = code_in(&ordered(&world, "/pair"));
    for guess in ["AAAAAAAA", "BBBBBBBB", "CCCCCCCC", "DDDDDDDD", "EEEEEEEE"] {
        world.chat("66").says(guess);
    }
    world.settled();
    world.crash();
    world.start();
    world.chat("66").says(&code);
    world.settled();
    assert!(world.chat("66").heard().is_empty(), "locked out, right codes included");
    code_in(&ordered(&world, "/pair"));
    world.chat("99").says(&code);
    assert!(world.chat("99").hears(1)[0].starts_with("Welcome"));
}

#[test]
fn no_code_that_works_stands_in_the_files_of_the_database() {
    let mut world = world();
    let codes = [offered(&world, "99"), code_in(&ordered(&world, "/pair"))];
    world.settled();
    let look = |world: &World, when: &str| {
        let files = std::fs::read_dir(world.home()).unwrap().map(|file| file.unwrap().path());
        let bytes: Vec<u8> = files.filter_map(|file| std::fs::read(file).ok()).flatten().collect();
        let has = |text: &str| bytes.windows(text.len()).any(|bytes| bytes.eq_ignore_ascii_case(text.as_bytes()));
        assert!(has("hermes-host pairing approve fake"), "{when}: what else was said stands there");
        assert!(!codes.iter().any(|code| has(code)), "{when}");
    };
    look(&world, "while the host runs");
    world.stop();
    look(&world, "after it has ended");
    world.start();
    assert!(ordered(&world, &format!("/pair approve {}", codes[0])).contains("99 can now write"), "and they work");
    world.chat("98").says(&codes[1]);
    assert!(world.chat("98").hears(1)[0].starts_with("Welcome"));
}

#[test]
fn a_code_that_nobody_was_told_before_the_host_ended_is_taken_back_and_another_is_offered() {
    let mut world = world();
    world.set_online(false);
    world.chat("99").says("hello");
    world.until("the offer is owed", || {
        (world.block_on(world.host().store.counts()).unwrap().outbox == 1).then_some(())
    });
    world.crash();
    world.start();
    world.settled();
    assert!(world.chat("99").heard().is_empty(), "no stand-in is told");
    let dead = DeliveryFilter { dead: true, ..DeliveryFilter::default() };
    let dead = world.block_on(world.host().store.deliveries(dead)).unwrap();
    assert_eq!(dead[0].why.as_deref(), Some("its pairing code was lost when the host stopped"));
    let code = offered(&world, "99");
    assert!(ordered(&world, &format!("/pair approve {code}")).contains("99 can now write"));
}

#[test]
fn a_code_that_was_being_told_when_the_host_ended_is_taken_back_and_another_is_offered() {
    let section = "access = { admins = [\"1\"] }".to_owned();
    let mut world = World::with(Setting { section, ..Setting::default() });
    world.platform.hangs();
    world.chat("99").says("hello");
    let code = code_in(&world.chat("99").hears(1)[0]);
    world.crash();
    world.start();
    world.settled();
    assert_eq!(world.chat("99").heard().len(), 1, "no stand-in is told");
    assert_eq!(ordered(&world, "/pair list"), "No pending requests here.");
    let another = offered(&world, "99");
    assert!(ordered(&world, &format!("/pair approve {code}")).contains("No pending request"));
    assert!(ordered(&world, &format!("/pair approve {another}")).contains("99 can now write"));
}

#[test]
fn a_request_whose_offer_is_refused_is_taken_back_in_memory_and_on_disk() {
    let mut world = world();
    world.platform.refuses(RefusalKind::Invalid);
    world.chat("99").says("hello");
    world.chat("99").hears(1);
    world.settled();
    assert_eq!(ordered(&world, "/pair list"), "No pending requests here.");
    world.crash();
    world.start();
    assert_eq!(ordered(&world, "/pair list"), "No pending requests here.");
    let code = offered(&world, "99");
    assert!(ordered(&world, &format!("/pair approve {code}")).contains("99 can now write"));
}

#[test]
fn whoever_is_let_in_by_an_invitation_does_not_ask_any_more() {
    let mut world = world();
    let own = offered(&world, "99");
    let code = code_in(&ordered(&world, "/pair"));
    world.chat("99").says(&own);
    world.settled();
    assert_eq!(ordered(&world, "/pair list"), "- 99\n- an invitation");
    world.chat("99").says(&code);
    world.until("they are welcome", || {
        world.chat("99").heard().iter().any(|text| text.starts_with("Welcome")).then_some(())
    });
    assert_eq!(ordered(&world, "/pair list"), "No pending requests here.");
    world.settled();
    world.crash();
    world.start();
    assert_eq!(ordered(&world, "/pair list"), "No pending requests here.");
}

/// Creates a world in which the offer to 99 waits after more deliveries than a lane holds in memory.
fn with_an_offer_in_the_store() -> World {
    let world = world();
    world.set_online(false);
    let host = world.host();
    for n in 0..=HELD_MAX {
        world.block_on(async {
            let chat = Chat::dm("99");
            let delivery =
                crate::engine::context::compose(host, "fake", chat, hermes_protocol::Purpose::Reply, n.to_string())
                    .await;
            let id = host.store.owe(delivery.clone()).await.unwrap();
            host.carry(vec![id], vec![delivery]).await;
        });
    }
    world.chat("99").says("hello");
    world.until("the offer is owed", || {
        (world.block_on(host.store.counts()).unwrap().outbox == HELD_MAX as u64 + 2).then_some(())
    });
    world
}

#[test]
fn an_offer_in_the_store_that_is_given_up_with_its_chat_takes_its_request_back() {
    let world = with_an_offer_in_the_store();
    let (instance, chat, why) = ("fake".to_owned(), Chat::dm("99"), "blocked".to_owned());
    world.block_on(world.host().tell(HostEvent::Delivery(DeliveryNews::Dead { instance, chat, why })));
    world
        .until("all are given up", || (world.block_on(world.host().store.counts()).unwrap().outbox == 0).then_some(()));
    world.set_online(true);
    assert_eq!(ordered(&world, "/pair list"), "No pending requests here.");
}

#[test]
fn an_offer_that_is_dropped_takes_its_request_back_also_on_disk() {
    let mut world = with_an_offer_in_the_store();
    let host = world.host();
    let owed = world.block_on(host.store.deliveries(DeliveryFilter::default())).unwrap().remove(0);
    assert!(owed.untold().is_some(), "{owed:?}");
    world.block_on(async {
        host.tell_untold(Some(&owed)).await;
        host.store.outbox_drop(owed.id, "dropped by the operator").await.unwrap();
    });
    world.set_online(true);
    assert_eq!(ordered(&world, "/pair list"), "No pending requests here.");
    world.crash();
    world.start();
    assert_eq!(ordered(&world, "/pair list"), "No pending requests here.");
}
