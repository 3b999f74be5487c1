//! The question to which an answer belongs, and questions that cannot be asked or are closed.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hermes_agent::questions::{Answer, ApprovalRequest, TurnQuestion};
use hermes_agent::{AgentRuntime, EventSink, TurnOutcome, TurnRequest};
use hermes_core::ids::DeliveryId;
use hermes_core::limits::{APPROVED_KINDS_MAX, ASK_PRESSES_HEEDED_MAX};
use hermes_protocol::{ChoiceMade, EventKind, RefusalKind, SendOutcome};
use tokio_util::sync::CancellationToken;

use super::asks::{
    BUTTONS, WORDS, asked, forged, hears, press, questions, setting, shows, there, with_buttons, with_words,
};
use super::world::{Setting, Talk, World};
use hermes_store::{DeliveryFilter, OwedDelivery, StoreError};

/// Returns the question that waits to be asked.
fn owed(world: &World) -> OwedDelivery {
    world.until("it is owed", || world.block_on(world.host().store.open_asks(DeliveryId(0))).unwrap().pop())
}

fn approvals(chat: &Talk<'_>) -> usize {
    chat.heard().iter().filter(|text| text.starts_with("approved")).count()
}

#[test]
fn bare_words_and_commands_answer_no_question_that_nobody_has_seen() {
    let world = with_words();
    let chat = world.chat("7");
    world.set_online(false);
    chat.says("/ask ls");
    owed(&world);
    for words in ["yes", "/approve", "/deny", "1"] {
        chat.says(words);
    }
    world.set_online(true);
    hears(&world, &chat, "May I do this?");
    there(&world);
    world.until("both are told", || {
        (chat.heard().iter().filter(|text| text.contains("is older than the approval request")).count() == 2)
            .then_some(())
    });
    assert_eq!(approvals(&chat), 0, "{:?}", chat.heard());
    chat.says("yes");
    hears(&world, &chat, "approved: once");
    world.settled();
    assert!(chat.heard().contains(&"yes\n1".to_owned()), "what answered nothing is for the agent: {:?}", chat.heard());
}

#[test]
fn what_was_said_before_a_question_was_there_answers_something_older() {
    let world = with_words();
    let chat = world.chat("7");
    world.platform.answers(SendOutcome::delivered("p1", 100_000));
    chat.says("/ask ls");
    hears(&world, &chat, "May I do this?");
    there(&world);
    // The message was delayed and arrives now.
    chat.gives(&chat.event("yes").at_ms(90_000));
    chat.gives(&chat.event("/approve").at_ms(90_000));
    hears(&world, &chat, "is older than the approval request");
    assert_eq!(approvals(&chat), 0, "{:?}", chat.heard());
    chat.gives(&chat.event("yes").at_ms(100_000));
    hears(&world, &chat, "approved: once");
    world.settled();
}

#[test]
fn after_a_restart_a_yes_to_the_old_question_is_none_to_the_new_one() {
    let mut world = with_words();
    world.chat("7").says("/ask ls");
    there(&world);
    world.crash();
    world.start_with(false);
    let chat = world.chat("7");
    chat.says("yes");
    world.set_online(true);
    hears(&world, &chat, "May I do this?");
    there(&world);
    assert_eq!(approvals(&chat), 0, "{:?}", chat.heard());
    chat.says("/deny");
    hears(&world, &chat, "denied");
    world.settled();
}

#[test]
fn a_button_counts_before_the_receipt_of_its_question_and_goes_away_when_that_comes() {
    let world = with_buttons();
    let chat = world.chat("7");
    world.platform.holds_receipt();
    chat.says("/ask ls");
    let question = world.until("it is seen", || questions(&world).into_iter().next());
    chat.gives(&press(&chat, &question, "once"));
    let runs = || world.block_on(world.host().store.counts()).unwrap().turns;
    world.until("its turn goes on", || (runs() == 0).then_some(()));
    assert!(world.platform.edits().is_empty());
    world.platform.gives_receipts();
    shows(&world, "Approved once.");
    hears(&world, &chat, "approved: once");
    world.settled();
    let edits = world.platform.edits();
    assert!(edits.iter().all(|edit| edit.message.id == question.0 && edit.outgoing.choices.is_none()), "{edits:?}");
    assert_eq!(chat.heard().len(), 2, "{:?}", chat.heard());
}

#[test]
fn a_question_that_is_not_taken_is_told_to_its_turn_at_once_and_is_not_asked_by_an_operator_either() {
    for capabilities in [BUTTONS, WORDS] {
        // The clock stands still, so no wait for an answer can pass.
        let world = World::with(Setting { clock_stands: true, ..setting(capabilities, "") });
        let chat = world.chat("7");
        world.platform.refuses(RefusalKind::Invalid);
        chat.says("/ask ls");
        hears(&world, &chat, "denied: the question could not be sent: refused (invalid): no");
        world.settled();
        let dead = DeliveryFilter { dead: true, ..DeliveryFilter::default() };
        let dead = world.block_on(world.host().store.deliveries(dead)).unwrap();
        let retried = world.block_on(world.host().store.outbox_retry(dead[0].id)).unwrap_err();
        assert_eq!(retried, StoreError::QuestionOver { delivery: dead[0].id });
        assert!(retried.to_string().contains("contains a question that is closed"), "{retried}");
    }
}

#[test]
fn a_question_to_a_chat_that_nobody_can_write_to_ends_its_turn() {
    let world = World::with(Setting { clock_stands: true, ..setting(BUTTONS, "") });
    let chat = world.chat("7");
    world.platform.refuses(RefusalKind::Forbidden);
    chat.says("/ask ls");
    world.settled();
    assert_eq!(chat.heard().len(), 1, "no answer goes where nobody can write: {:?}", chat.heard());
    chat.says("hello");
    hears(&world, &chat, "hello");
    world.settled();
}

#[test]
fn an_admin_who_cannot_be_written_to_is_not_asked_again_and_the_turn_hears_so() {
    let world = World::with(Setting { clock_stands: true, ..setting(WORDS, "") });
    let (ada, admin) = (world.chat("7"), world.chat("1"));
    admin.says("hello");
    admin.hears(1);
    world.platform.refuses(RefusalKind::Forbidden);
    admin.says("are you there?");
    world.settled();
    ada.says("/danger rm -rf /");
    hears(&world, &ada, "denied: only an admin can approve this");
    admin.says("hello again");
    hears(&world, &admin, "hello again");
    world.settled();
    ada.says("/danger rm -rf /");
    hears(&world, &admin, "needs your approval");
    ada.says("/stop");
    world.settled();
}

#[test]
fn a_question_that_is_over_before_it_was_sent_is_not_sent() {
    for capabilities in [BUTTONS, WORDS] {
        let world = World::with(setting(capabilities, ""));
        let chat = world.chat("7");
        world.set_online(false);
        chat.says("/ask ls");
        let question = owed(&world);
        chat.says("/stop");
        world.until("it is withdrawn", || {
            let delivery = world.block_on(world.host().store.delivery(question.id)).unwrap().unwrap();
            (!delivery.state.is_live()).then_some(())
        });
        world.set_online(true);
        hears(&world, &chat, "Stopped.");
        world.settled();
        assert_eq!(chat.heard(), ["Stopped."]);
    }
}

#[test]
fn a_late_press_leaves_a_question_as_it_ended_also_after_a_restart() {
    let mut world = with_buttons();
    world.chat("7").says("/ask ls");
    let question = asked(&world, 1);
    let chat = world.chat("7");
    chat.gives(&press(&chat, &question, "once"));
    shows(&world, "Approved once.");
    world.settled();
    world.crash();
    world.start();
    let chat = world.chat("7");
    for option in ["deny", "once"] {
        chat.gives(&press(&chat, &question, option));
        world.settled();
    }
    let ended = |text: &String| text.ends_with("Approved once.");
    assert!(world.platform.edits().iter().all(|edit| ended(&edit.outgoing.text)), "{:?}", world.platform.edits());
    assert_eq!(world.platform.screen().iter().filter(|text| ended(text)).count(), 1);
    assert_eq!(chat.heard().len(), 2, "{:?}", chat.heard());
}

#[test]
fn presses_of_ever_new_questions_are_answered_so_often_and_no_more() {
    let world = with_buttons();
    let chat = world.chat("7");
    for number in 0..40 {
        chat.gives(&forged(&chat, &format!("{number:016x}"), "p1"));
    }
    world.settled();
    assert_eq!(chat.heard().len(), ASK_PRESSES_HEEDED_MAX as usize, "{:?}", chat.heard());
    chat.says("/ask ls");
    let question = asked(&world, 1);
    chat.gives(&press(&chat, &question, "once"));
    hears(&world, &chat, "approved: once");
    world.settled();
}

/// A runtime that asks two questions at once, both without a kind.
struct Two;

impl AgentRuntime for Two {
    fn name(&self) -> &'static str {
        "two"
    }

    fn models(&self) -> Vec<String> {
        vec!["two".to_owned()]
    }

    fn run(&self, _: TurnRequest, events: EventSink, _: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        Box::pin(async move {
            let ask = |action: &str| {
                events.ask(TurnQuestion::Approval(ApprovalRequest {
                    action: action.to_owned(),
                    ..ApprovalRequest::default()
                }))
            };
            let said = |answer: Answer| if answer.approves() { "done" } else { "left" };
            let (first, second, third) = tokio::join!(ask("first"), ask("second"), ask("third"));
            TurnOutcome::Finished {
                text: format!("first {}, second {}, third {}", said(first), said(second), said(third)),
                messages: Vec::new(),
                usage: Default::default(),
                finish_reason: "stop".to_owned(),
                model: "two".to_owned(),
                state: None,
            }
        })
    }
}

#[test]
fn of_several_questions_the_newest_is_answered_and_it_is_said_which_it_was_and_how_many_wait() {
    let world = World::with(Setting { runtime: Some(Arc::new(Two)), ..setting(WORDS, "") });
    let chat = world.chat("7");
    chat.says("go");
    chat.hears(3);
    there(&world);
    chat.says("/approve");
    assert_eq!(chat.hears(4)[3], "Approved once.\nThat was: `third`\n2 more questions are open.");
    chat.says("no");
    assert_eq!(chat.hears(5)[4], "Denied.\nThat was: `second`\nOne more question is open.");
    chat.says("/approve session");
    let heard = chat.hears(7);
    let kept = "Approved once. This kind of action cannot be approved for longer.".to_owned();
    assert!(heard[5..].contains(&kept), "{heard:?}");
    assert!(heard[5..].contains(&"first done, second left, third done".to_owned()), "{heard:?}");
    world.settled();
}

#[test]
fn an_approval_is_said_to_hold_only_for_as_long_as_it_is_kept() {
    let world = with_words();
    let admin = world.chat("1");
    let all = (0..APPROVED_KINDS_MAX).map(|number| format!(".kept{number}")).collect();
    world.host().show_approved(all);
    let approves = |kind: String, words: &str| {
        let before = admin.heard().len();
        admin.says(&format!("/ask {kind}"));
        admin.hears(before + 1);
        there(&world);
        admin.says(words);
        let heard = admin.hears(before + 3)[before + 1..].to_vec();
        world.settled();
        heard
    };
    let heard = approves("make".to_owned(), "/approve always");
    let said = "Approved for this conversation. The list of permanent approvals is full; `/approve forget` clears it.";
    assert!(heard.contains(&said.to_owned()) && heard.contains(&"approved: session".to_owned()), "{heard:?}");
    for number in 1..APPROVED_KINDS_MAX {
        approves(format!("kind{number}"), "session");
    }
    let heard = approves("another".to_owned(), "session");
    let said = "Approved once. The list of approvals for this conversation is full; `/approve forget` clears it.";
    assert!(heard.contains(&said.to_owned()) && heard.contains(&"approved: once".to_owned()), "{heard:?}");
}

#[test]
fn a_question_with_too_many_or_with_empty_options_is_refused_and_its_turn_hears_why() {
    let world = with_words();
    let chat = world.chat("7");
    chat.says(&format!("/choose What? | {}", ["Tea"; 11].join(" | ")));
    assert_eq!(
        chat.hears(1)[0],
        "denied: a question may have at most 10 options, but this one has 11; use fewer options"
    );
    chat.says("/choose What? | Tea | | Coffee");
    let why = "denied: option 2 of the question is empty; give every option a text";
    assert_eq!(chat.hears(2)[1], why);
    chat.says("/ask");
    assert_eq!(chat.hears(3)[2], "denied: an approval request needs a description of the action");
    world.settled();
}

#[test]
fn what_is_nearly_an_answer_ends_nothing_and_is_told_the_options_once() {
    let mut setting = setting(WORDS, "");
    setting.section = setting.section.replace("\"queue\"", "\"interrupt\"");
    let world = World::with(setting);
    let chat = world.chat("7");
    let asks = |count: usize| {
        chat.says("/choose What? | Tea | Coffee");
        chat.hears(count);
        there(&world);
    };
    asks(1);
    chat.says("milk");
    let told = chat.hears(2)[1].clone();
    assert!(told.starts_with("That didn't match an option") && told.contains("1. Tea\n2. Coffee"), "{told}");
    chat.says("Option 2.");
    hears(&world, &chat, "chosen: Coffee");
    world.settled();
    asks(5);
    chat.says("milk");
    chat.hears(6);
    chat.says("milk");
    hears(&world, &chat, "(interrupted)");
    world.until("it is answered", || chat.heard().contains(&"milk".to_owned()).then_some(()));
    world.settled();
    assert!(world.block_on(world.host().store.open_asks(DeliveryId(0))).unwrap().is_empty());
}

#[test]
fn a_question_that_no_longer_waits_when_it_is_answered_in_words_is_said_to_be_over_and_nothing_else() {
    let world = World::with(Setting { runtime: Some(Arc::new(Two)), ..setting(BUTTONS, "") });
    let chat = world.chat("7");
    chat.says("go");
    let questions: Vec<_> = (1..=3).map(|count| asked(&world, count)).collect();
    chat.says("/deny all");
    hears(&world, &chat, "first left, second left, third left");
    world.settled();
    let mut event = chat.event("").of_kind(EventKind::Choice);
    let ask = questions[0].1.choices.as_ref().unwrap().ask.clone();
    event.choice = Some(ChoiceMade::new(ask, "once"));
    chat.gives(&event);
    world.settled();
    assert_eq!(world.platform.screen().iter().filter(|text| text.ends_with("\n\nDenied.")).count(), 3);
    assert_eq!(chat.heard().iter().filter(|text| *text == "Denied.").count(), 1, "{:?}", chat.heard());
}
