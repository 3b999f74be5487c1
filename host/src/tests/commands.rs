//! Commands, from the view of users in chats.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use hermes_agent::{AgentRuntime, EventSink, Message, TurnOutcome, TurnRequest};
use hermes_core::settings::Effort;
use hermes_protocol::{Chat, ChatType, RefusalKind, SendOutcome};
use tokio_util::sync::CancellationToken;

use super::world::{Setting, World};
use hermes_config::Sources;

/// A runtime that answers with the requested model and records its requests.
#[derive(Default)]
pub struct Recorder {
    /// Every request, oldest first.
    pub requests: Mutex<Vec<TurnRequest>>,
}

impl Recorder {
    fn last(&self) -> TurnRequest {
        self.requests.lock().unwrap().last().expect("a turn ran").clone()
    }
}

impl AgentRuntime for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn models(&self) -> Vec<String> {
        vec!["small".to_owned(), "large".to_owned()]
    }

    fn run(&self, request: TurnRequest, _: EventSink, _: CancellationToken) -> BoxFuture<'_, TurnOutcome> {
        self.requests.lock().unwrap().push(request.clone());
        Box::pin(async move {
            let text = format!("by {}", request.model.as_deref().unwrap_or("small"));
            let mut message = Message::assistant(text.clone());
            message.reasoning = Some("I thought\nabout it".to_owned());
            TurnOutcome::Finished {
                text,
                messages: vec![message],
                usage: Default::default(),
                finish_reason: "stop".to_owned(),
                model: "small".to_owned(),
                state: None,
            }
        })
    }
}

/// 7 is an admin, 8 and 9 are users.
const SECTION: &str = "access = { allowed_users = [\"8\", \"9\"], admins = [\"7\"] }";

fn world() -> (World, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let runtime: Arc<dyn AgentRuntime> = recorder.clone();
    (World::with(Setting { section: SECTION.to_owned(), runtime: Some(runtime), ..Setting::default() }), recorder)
}

#[test]
fn an_answer_that_was_refused_is_told_to_the_agent_in_the_next_turn_once() {
    let (world, recorder) = world();
    let ada = world.chat("8");
    world.platform.answers(SendOutcome::refused(RefusalKind::Invalid, "blocked by AutoMod"));
    ada.says("hello");
    ada.hears(2);
    assert!(!recorder.last().system.contains("[System"));
    ada.says("and?");
    ada.hears(3);
    let told = recorder.last().system;
    assert!(
        told.contains("not delivered") && told.contains("blocked by AutoMod") && told.contains("by small"),
        "{told}"
    );
    ada.says("fine");
    ada.hears(4);
    assert!(!recorder.last().system.contains("[System"), "once");
}

#[test]
fn a_model_chosen_for_a_conversation_answers_there_and_only_there_also_after_a_restart() {
    let (mut world, recorder) = world();
    let ada = world.chat("8");
    ada.says("/model large");
    assert_eq!(ada.hears(1)[0], "Model set to `large` for this conversation. Applies from your next message.");
    ada.says("hello");
    assert_eq!(ada.hears(2)[1], "by large");
    let other = world.chat("9");
    other.says("hello");
    assert_eq!(other.hears(1)[0], "by small");
    world.settled();
    world.stop();
    world.start();
    let ada = world.chat("8");
    ada.says("again");
    assert_eq!(ada.hears(3)[2], "by large");
    assert_eq!(recorder.last().history.len(), 2, "the choice began the conversation that goes on");
    ada.says("/model reset");
    ada.says("and now");
    assert_eq!(ada.hears(5)[4], "by small");
}

#[test]
fn a_new_conversation_begins_with_nothing_chosen() {
    let (world, _) = world();
    let ada = world.chat("8");
    ada.says("/model large");
    ada.hears(1);
    ada.says("/new");
    ada.hears(2);
    ada.says("hello");
    assert_eq!(ada.hears(3)[2], "by small");
}

#[test]
fn the_list_of_models_says_which_one_answers() {
    let (world, _) = world();
    let ada = world.chat("8");
    ada.says("/model");
    assert!(ada.hears(1)[0].starts_with("- `small` (default, used here)\n- `large`\n"), "{:?}", ada.heard());
    ada.says("/model LARGE");
    ada.says("/model");
    let list = &ada.hears(3)[2];
    assert!(list.starts_with("- `small` (default)\n- `large` (this conversation)\n"), "{list}");
}

#[test]
fn a_user_chooses_from_the_list_and_staff_may_name_any_model() {
    let (world, recorder) = world();
    let ada = world.chat("8");
    ada.says("/model huge");
    assert_eq!(ada.hears(1)[0], "There is no model `huge` here. Choose one of `small`, `large`.");
    let admin = world.chat("7");
    admin.says("/model huge");
    admin.hears(1);
    admin.says("hello");
    admin.hears(2);
    assert_eq!(recorder.last().model.as_deref(), Some("huge"));
}

#[test]
fn only_an_admin_chooses_the_model_of_everybody_and_it_survives_a_restart() {
    let (mut world, _) = world();
    let ada = world.chat("8");
    ada.says("/model large --global");
    assert_eq!(ada.hears(1)[0], "Only admins of this host can change the model for everyone.");
    ada.says("hello");
    assert_eq!(ada.hears(2)[1], "by small");
    let admin = world.chat("7");
    admin.says("/model large —global");
    admin.hears(1);
    ada.says("hello");
    assert_eq!(ada.hears(3)[2], "by large");
    world.settled();
    world.stop();
    world.start();
    let other = world.chat("9");
    other.says("hello");
    assert_eq!(other.hears(1)[0], "by large");
    world.chat("7").says("/model reset --global");
    world.chat("7").hears(2);
    other.says("hello");
    assert_eq!(other.hears(2)[1], "by small");
}

fn world_with(section: &str) -> (World, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::default());
    let runtime: Arc<dyn AgentRuntime> = recorder.clone();
    (World::with(Setting { section: section.to_owned(), runtime: Some(runtime), ..Setting::default() }), recorder)
}

#[test]
fn a_personality_is_told_to_the_model_of_this_conversation_until_it_is_taken_back() {
    let (world, recorder) = world_with(&format!("{SECTION}\n[agent.personalities]\npirate = \"Talk like a pirate.\""));
    let ada = world.chat("8");
    ada.says("/personality");
    assert!(ada.hears(1)[0].starts_with("- `pirate`\n"), "{:?}", ada.heard());
    ada.says("/personality Pirate");
    ada.says("hello");
    assert_eq!(ada.hears(3)[1], "Personality set to `pirate` for this conversation. Applies from your next message.");
    assert_eq!(recorder.last().system, "Talk like a pirate.");
    world.chat("9").says("hello");
    world.chat("9").hears(1);
    assert_eq!(recorder.last().system, "");
    ada.says("/personality nobody");
    ada.says("/personality none");
    ada.says("hello");
    let heard = ada.hears(6);
    assert_eq!(heard[3], "There is no personality with this name. `/personality` lists them.");
    assert_eq!(recorder.last().system, "");
}

#[test]
fn the_effort_reaches_the_runtime_and_thoughts_are_hidden_until_somebody_wants_them() {
    let (world, recorder) = world();
    let ada = world.chat("8");
    ada.says("hello");
    assert_eq!(ada.hears(1)[0], "by small");
    assert_eq!(recorder.last().reasoning, None);
    ada.says("/reasoning high");
    ada.says("/reasoning show");
    ada.says("hello");
    assert_eq!(ada.hears(4)[3], "by small\n\n> I thought\n> about it");
    assert_eq!(recorder.last().reasoning, Some(Effort::High));
    assert!(recorder.last().history.iter().all(|message| !message.content.contains('>')), "{:?}", recorder.last());
    ada.says("/reasoning hide");
    ada.says("/reasoning reset");
    ada.says("hello");
    assert_eq!(ada.hears(7)[6], "by small");
    assert_eq!(recorder.last().reasoning, None);
    ada.says("/reasoning loud");
    assert!(ada.hears(8)[7].starts_with("Use `/reasoning none | minimal"), "{:?}", ada.heard());
}

#[test]
fn the_status_of_a_conversation_says_what_was_chosen_for_it() {
    let (world, _) = world();
    let ada = world.chat("8");
    ada.says("/model large");
    ada.says("/reasoning low");
    ada.says("hello");
    ada.hears(3);
    ada.says("/status");
    let status = &ada.hears(4)[3];
    for line in ["- Messages: 2", "- Agent: recorder large", "- Effort: low", "- Now: idle", "- Platforms: fake online"]
    {
        assert!(status.contains(line), "{line} in {status}");
    }
}

#[test]
fn whoami_lists_what_one_may_run_here() {
    let (world, _) = world();
    for (who, tier, admins) in [("8", "user", false), ("7", "admin", true)] {
        let talk = world.chat(who);
        talk.says("/whoami");
        let said = &talk.hears(1)[0];
        assert!(said.contains(&format!("- You are: {tier} (")) && said.contains("/model"), "{said}");
        assert_eq!((said.contains("/restart"), said.contains("/pair")), (admins, admins), "{said}");
    }
}

#[test]
fn version_and_profile_are_told_to_everybody() {
    let (world, _) = world();
    let ada = world.chat("8");
    ada.says("/v");
    ada.says("/profile");
    let heard = ada.hears(2);
    assert!(heard[0].starts_with(&format!("hermes-host {} (", env!("CARGO_PKG_VERSION"))), "{heard:?}");
    assert_eq!(heard[1], "- Profile: `main`");
}

#[test]
fn the_debug_report_is_for_admins_in_private_and_holds_no_secret() {
    let (world, _) = world_with(&format!("{SECTION}\ntoken = \"s3cr3t-token-of-mine\""));
    let ada = world.chat("8");
    ada.says("/debug");
    assert_eq!(ada.hears(1)[0], "/debug is only for admins of this host.");
    let admin = world.chat("7");
    admin.says("/debug");
    let report = &admin.hears(1)[0];
    assert!(report.contains("hermes-host ") && report.contains("adapter.fake.access.admins"), "{report}");
    assert!(!report.contains("s3cr3t-token-of-mine"), "{report}");
}

#[test]
fn an_admin_lists_adapters_and_cannot_cut_the_branch_they_sit_on() {
    let (world, _) = world();
    let ada = world.chat("8");
    ada.says("/platform list");
    assert_eq!(ada.hears(1)[0], "/platform is only for admins of this host.");
    let admin = world.chat("7");
    admin.says("/platform");
    admin.says("/platform pause fake");
    admin.says("/platform pause fale");
    admin.says("/platform rm fake");
    let heard = admin.hears(4);
    assert_eq!(heard[0], "- `fake` (fake): online");
    assert!(heard[1].starts_with("`fake` carries this chat"), "{heard:?}");
    assert!(heard[2].contains("Did you mean `fake`?"), "{heard:?}");
    assert!(heard[3].starts_with("Use `/platform list`"), "{heard:?}");
}

#[test]
fn whoever_restarts_the_host_hears_of_it_before_and_once_after() {
    let (mut world, _) = world();
    let ada = world.chat("8");
    ada.says("/restart");
    assert_eq!(ada.hears(1)[0], "/restart is only for admins of this host.");
    let admin = world.chat("7");
    admin.says("/restart");
    assert!(admin.hears(1)[0].starts_with("This host belongs to a terminal"), "{:?}", admin.heard());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plugins.toml");
    std::fs::write(&file, "[agent]\nruntime = \"none\"\n").unwrap();
    let sources = Sources { config: Some(file.clone()), home: Some(folder.path().to_owned()), ..Sources::default() };
    world.host().set_restartable(crate::app::NextRun { sources, program: None });
    let restarting = world.host().restarting.clone();
    admin.says("/restart");
    assert!(admin.hears(2)[1].starts_with("Not restarted: the host would not start again"), "{:?}", admin.heard());
    assert!(!restarting.is_cancelled());
    std::fs::write(&file, "[agent]\nruntime = \"echo\"\n").unwrap();
    admin.says("/restart");
    assert!(admin.hears(3)[2].starts_with("The host restarts after"), "{:?}", admin.heard());
    world.block_on(restarting.cancelled());
    world.stop();
    world.start_with(false);
    assert_eq!(world.chat_heard("7").len(), 3, "its adapter is not back");
    world.set_online(true);
    assert_eq!(world.chat("7").hears(4)[3], "The host is back.");
    world.settled();
    world.stop();
    world.start();
    world.chat("7").says("/version");
    assert_eq!(world.chat("7").hears(5).len(), 5);
    assert_eq!(world.chat_heard("8").len(), 1, "nobody else hears of it");
}

#[test]
fn a_command_that_names_another_account_is_not_obeyed_in_a_group() {
    let (world, _) = world();
    let ada = world.chat("8");
    let mut event = ada.event("/version@other_bot");
    event.chat = Chat::new(ChatType::Group, "g");
    event.addressed.mention = true;
    ada.gives(&event);
    let mut event = ada.event("/version@this_bot");
    event.chat = Chat::new(ChatType::Group, "g");
    event.addressed.command = true;
    ada.gives(&event);
    world.settled();
    let sent = world.platform.sent();
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert!(sent[0].text.starts_with("hermes-host "));
}

#[test]
fn the_commands_reference_is_what_the_table_says() {
    let page = include_str!("../../COMMANDS.md");
    let table = hermes_core::commands::reference();
    assert!(page.ends_with(&table), "host/COMMANDS.md has to end with\n{table}");
}

#[test]
fn whoever_writes_too_much_is_told_once_and_commands_still_work() {
    let (world, recorder) = world_with(&format!("{SECTION}\n[limits]\nuser_messages_per_minute = 2"));
    let ada = world.chat("8");
    for text in ["one", "two", "three", "four", "five"] {
        ada.says(text);
    }
    ada.says("/version");
    world.settled();
    let heard = ada.heard();
    let notices = heard.iter().filter(|text| text.starts_with("Message skipped: at most 2 messages a minute"));
    assert_eq!((heard.len(), notices.count()), (4, 1), "{heard:?}");
    let asked = recorder.requests.lock().unwrap().len();
    assert_eq!(asked, 2, "what was not taken is not asked");
    let other = world.chat("9");
    other.says("hello");
    assert_eq!(other.hears(1)[0], "by small");
}

#[test]
fn a_conversation_and_an_instance_take_only_so_many_messages() {
    let limits = "[limits]\nsession_messages_per_minute = 1\ninstance_messages_per_minute = 2";
    let (world, _) = world_with(&format!("{SECTION}\n{limits}"));
    let (ada, bob) = (world.chat("8"), world.chat("9"));
    ada.says("one");
    ada.says("two");
    assert!(ada.hears(2).iter().any(|text| text.starts_with("Message skipped: at most 1 ")), "{:?}", ada.heard());
    bob.says("one");
    assert_eq!(bob.hears(1)[0], "by small");
    let admin = world.chat("7");
    admin.says("one");
    assert!(admin.hears(1)[0].starts_with("Message skipped: at most 2 "), "{:?}", admin.heard());
}

#[test]
fn two_bots_that_answer_each_other_fall_silent_until_a_person_speaks() {
    let (world, recorder) = world_with(&format!("{SECTION}\n[limits]\nbot_messages_max = 3"));
    let chat = world.chat("8");
    let bot_says = |text: &str| {
        let mut event = chat.event(text);
        event.sender.is_bot = true;
        event.addressed.mention = true;
        chat.gives(&event);
    };
    // One at a time: a message during a turn would join or end the turn.
    for n in 1..=6 {
        bot_says(&format!("@you {n}"));
        chat.hears(n.min(3));
    }
    world.settled();
    assert_eq!((chat.heard().len(), recorder.requests.lock().unwrap().len()), (3, 3), "{:?}", chat.heard());
    chat.says("a person");
    chat.hears(4);
    bot_says("@you again");
    world.settled();
    assert_eq!(recorder.requests.lock().unwrap().len(), 5);
}

#[test]
fn help_for_what_is_no_command_says_so_and_offers_the_nearest() {
    let world = World::new();
    let chat = world.chat("7");
    for (n, (asked, answer)) in [
        ("/help nonsense", "There is no command /nonsense. `/help` lists the commands."),
        ("/help stpo", "There is no command /stpo. Did you mean `/stop`?"),
        ("/help ???", "There is no command \"???\". `/help` lists the commands."),
        ("/help how do I", "There is no command /how. `/help` lists the commands."),
        ("/footer", "Answers have no footer."),
    ]
    .into_iter()
    .enumerate()
    {
        chat.says(asked);
        assert_eq!(chat.hears(n + 1)[n], answer);
    }
    chat.says(&format!("/help {}", "?".repeat(10_000)));
    assert!(chat.hears(6)[5].len() < 200);
}
