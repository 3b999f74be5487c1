use hermes_protocol::ChatType;

use super::*;

const NOW: i64 = 1_000;

fn ada() -> Sender {
    Sender::new("7")
}

fn question(id: &str) -> Question {
    let options = ["once", "session", "deny"].map(|id| ChoiceOption::new(id, id)).to_vec();
    Question {
        id: id.to_owned(),
        session: SessionId("s1".to_owned()),
        instance: "fake".to_owned(),
        chat: Chat::dm("7"),
        origin: Chat::dm("7"),
        requester: ada(),
        addressee: None,
        needs: Tier::User,
        kind: QuestionKind::Approval,
        about: id.to_owned(),
        options,
        expires_at_ms: NOW + 300_000,
        key: None,
        command: None,
    }
}

fn choice(id: &str, free: bool) -> Question {
    let options = [("1", "Tea"), ("2", "Coffee")].map(|(id, label)| ChoiceOption::new(id, label)).to_vec();
    Question { kind: QuestionKind::Choice { free }, options, ..question(id) }
}

fn book(questions: impl IntoIterator<Item = Question>) -> QuestionBook {
    let mut book = QuestionBook::default();
    for question in questions {
        let (id, chat) = (question.id.clone(), question.chat.clone());
        book.open(question);
        book.mark_shown(&id, chat, Receipt::new(vec![format!("message of {id}")], 0));
    }
    book
}

fn by<'a>(chat: &'a Chat, sender: &'a Sender, tier: Tier) -> Answerer<'a> {
    Answerer { instance: "fake", chat: Some(chat), sender, tier, at_ms: 0, quotes: None }
}

fn press(option: &str) -> AnswerChoice {
    AnswerChoice::Option(option.to_owned())
}

#[track_caller]
fn taken(outcome: AnswerOutcome) -> Answer {
    match outcome {
        AnswerOutcome::Accepted(_, answer) => answer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_question_is_answered_once_and_a_second_answer_changes_nothing() {
    let (chat, ada) = (Chat::dm("7"), ada());
    let mut book = book([question("a")]);
    let by = by(&chat, &ada, Tier::User);
    assert_eq!(taken(book.answer("a", press("once"), &by, NOW)), Answer::Approved(Verdict::Once));
    assert_eq!(book.answer("a", press("deny"), &by, NOW), AnswerOutcome::Already);
    assert_eq!(book.answer("b", press("once"), &by, NOW), AnswerOutcome::Unknown);
    assert!(book.is_empty());
}

#[test]
fn only_its_requester_or_an_admin_answers_and_only_where_it_stands() {
    let (chat, group) = (Chat::dm("7"), Chat::new(ChatType::Group, "g"));
    let (ada, bob) = (ada(), Sender::new("8"));
    let mut book = book([question("a"), Question { chat: group.clone(), origin: group.clone(), ..question("b") }]);
    assert_eq!(book.answer("b", press("once"), &by(&group, &bob, Tier::User), NOW), AnswerOutcome::NotYours);
    assert_eq!(book.answer("a", press("once"), &by(&group, &ada, Tier::User), NOW), AnswerOutcome::NotYours);
    let elsewhere = Answerer { instance: "other", ..by(&chat, &ada, Tier::Operator) };
    assert_eq!(book.answer("a", press("once"), &elsewhere, NOW), AnswerOutcome::NotYours);
    assert!(book.answer("b", press("once"), &by(&group, &bob, Tier::Admin), NOW) != AnswerOutcome::NotYours);
    let nobody = Sender::new("");
    let mut open = QuestionBook::default();
    open.open(Question { requester: nobody.clone(), ..question("c") });
    assert_eq!(open.answer("c", press("once"), &by(&chat, &nobody, Tier::User), NOW), AnswerOutcome::NotYours);
}

#[test]
fn what_needs_an_admin_is_approved_by_no_user_but_its_requester_may_deny_it() {
    let (chat, dm) = (Chat::dm("7"), Chat::dm("1"));
    let (ada, admin) = (ada(), Sender::new("1"));
    let asked = Question { needs: Tier::Admin, chat: dm.clone(), addressee: Some("1".to_owned()), ..question("a") };
    let mut open = book([asked.clone()]);
    assert_eq!(open.answer("a", press("once"), &by(&chat, &ada, Tier::User), NOW), AnswerOutcome::NeedsAdmin);
    let denial = open.answer("a", AnswerChoice::Deny { why: Some("no".to_owned()) }, &by(&chat, &ada, Tier::User), NOW);
    assert_eq!(taken(denial), Answer::Denied { why: Some("no".to_owned()) });
    let mut open = book([asked]);
    assert_eq!(
        taken(open.answer("a", press("once"), &by(&dm, &admin, Tier::Admin), NOW)),
        Answer::Approved(Verdict::Once)
    );
}

#[test]
fn only_an_admin_approves_for_always() {
    let (chat, ada) = (Chat::dm("7"), ada());
    let mut book = book([question("a")]);
    assert_eq!(book.answer("a", press("always"), &by(&chat, &ada, Tier::User), NOW), AnswerOutcome::OnlyOnceOrSession);
    let always = book.answer("a", press("always"), &by(&chat, &ada, Tier::Admin), NOW);
    assert_eq!(taken(always), Answer::Approved(Verdict::Always));
}

#[test]
fn an_answer_after_its_time_changes_nothing() {
    let (chat, ada) = (Chat::dm("7"), ada());
    let mut book = book([question("a")]);
    let late = NOW + 300_000;
    assert_eq!(book.answer("a", press("once"), &by(&chat, &ada, Tier::User), late), AnswerOutcome::Expired);
    assert_eq!(book.find_by_words("yes", &by(&chat, &ada, Tier::User), late), None);
    book.close("a");
    assert_eq!(book.answer("a", press("once"), &by(&chat, &ada, Tier::User), NOW), AnswerOutcome::Closed);
}

#[test]
fn words_answer_the_newest_question_that_was_put_to_who_says_them() {
    let chat = Chat::new(ChatType::Group, "g");
    let (ada, bob) = (ada(), Sender::new("8"));
    let here = |id: &str, who: &Sender| Question {
        chat: chat.clone(),
        origin: chat.clone(),
        requester: who.clone(),
        ..question(id)
    };
    let book = book([here("a", &bob), here("b", &ada), here("c", &ada)]);
    let meant = |text: &str, who: &Sender| book.find_by_words(text, &by(&chat, who, Tier::Admin), NOW);
    assert_eq!(meant("Yes!", &ada), Some(("c".to_owned(), AnswerChoice::Approve(Verdict::Once))));
    assert_eq!(meant("no", &bob), Some(("a".to_owned(), AnswerChoice::Deny { why: None })));
    assert_eq!(meant("2", &ada), Some(("c".to_owned(), press("session"))));
    assert_eq!(meant("yes, and then some", &ada), None, "the whole text has to be the word");
    assert_eq!(meant("yes", &Sender::new("9")), None, "also an admin answers others by command or button only");
    assert_eq!(book.approvals_for(&by(&chat, &ada, Tier::User)), ["c", "b", "a"]);
}

#[test]
fn a_choice_takes_a_number_a_label_and_where_it_is_free_any_words() {
    let strict = choice("a", false);
    assert_eq!(read(&strict, " 2 "), Some(press("2")));
    assert_eq!(read(&strict, "tea"), Some(press("1")));
    assert_eq!((read(&strict, "3"), read(&strict, "0"), read(&strict, "milk")), (None, None, None));
    for (text, option) in [
        ("2.", "2"),
        ("(1)", "1"),
        ("Option 2", "2"),
        ("#1", "1"),
        ("number 1 please", "1"),
        ("2. coffee", "2"),
        ("\u{201c}COFFEE\u{201d}!", "2"),
        ("Tea, please", "1"),
    ] {
        assert_eq!(read(&strict, text), Some(press(option)), "{text}");
    }
    for text in ["1. coffee", "option", "-1", "tea?", "tea or coffee", "1 2", "", "please"] {
        assert_eq!(read(&strict, text), None, "{text}");
    }
    assert_eq!(read(&choice("a", true), "milk"), Some(AnswerChoice::Words("milk".to_owned())));
    let (chat, ada) = (Chat::dm("7"), ada());
    let by = by(&chat, &ada, Tier::User);
    let mut book = book([choice("a", false), choice("b", true)]);
    assert_eq!(book.answer("a", press("9"), &by, NOW), AnswerOutcome::NoSuchOption);
    assert_eq!(book.answer("a", AnswerChoice::Approve(Verdict::Once), &by, NOW), AnswerOutcome::NoSuchOption);
    assert_eq!(taken(book.answer("a", press("2"), &by, NOW)), Answer::Chosen(1));
    assert_eq!(
        taken(book.answer("b", AnswerChoice::Words("milk".to_owned()), &by, NOW)),
        Answer::Text("milk".to_owned())
    );
    assert!(book.approvals_for(&by).is_empty(), "a choice is not approved");
}

#[test]
fn somebody_is_told_once_that_a_question_is_not_theirs_and_what_is_over_is_bounded() {
    let mut book = book([question("a")]);
    assert!(book.notify_once("a", "8"));
    assert!(!book.notify_once("a", "8"));
    for number in 0..2 * ASKS_REMEMBERED_MAX {
        let id = number.to_string();
        book.open(question(&id));
        book.close(&id);
    }
    assert_eq!((book.over.len(), book.len()), (ASKS_REMEMBERED_MAX, 1));
}

#[test]
fn yolo_approves_what_is_not_dangerous_and_for_admins_everything() {
    for (yolo, dangerous, tier, granted) in [
        (true, false, Tier::User, true),
        (true, true, Tier::User, false),
        (true, true, Tier::Admin, true),
        (false, false, Tier::Operator, false),
    ] {
        assert_eq!(is_granted(false, yolo, dangerous, tier), granted);
    }
    assert!(is_granted(true, false, true, Tier::User), "an admin approved its kind");
    assert_ne!(approval_key("rm", true), approval_key("rm", false));
    assert_ne!(approval_key("!rm", false), approval_key("rm", true), "no kind is named like another one's key");
    assert_ne!(approval_key(".rm", true), approval_key("rm", false));
    assert_eq!(approval_key("", true), None);
}

#[test]
fn the_question_of_a_command_closes_by_itself_and_that_of_a_turn_by_its_turn() {
    let mut book = book([question("a"), Question { command: Some(String::new()), ..question("b") }]);
    assert!(book.expire_commands(NOW).is_empty());
    let over = book.expire_commands(NOW + 300_000);
    assert_eq!(over.iter().map(|question| question.id.as_str()).collect::<Vec<_>>(), ["b"]);
    assert!(book.get("a").is_some() && book.get("b").is_none());
}

#[test]
fn a_bare_word_of_an_admin_answers_nothing_that_was_asked_for_somebody_else() {
    let (dm, admin) = (Chat::dm("1"), Sender::new("1"));
    let asked =
        Question { needs: Tier::Admin, chat: dm.clone(), addressee: Some("1".to_owned()), ..question("dangerous") };
    let own = Question { chat: dm.clone(), origin: dm.clone(), requester: admin.clone(), ..question("own") };
    let by = by(&dm, &admin, Tier::Admin);
    for questions in [vec![asked.clone(), own.clone()], vec![own, asked.clone()]] {
        let meant = book(questions).find_by_words("yes", &by, NOW);
        assert_eq!(meant, Some(("own".to_owned(), AnswerChoice::Approve(Verdict::Once))));
    }
    let mut alone = book([asked]);
    assert_eq!((alone.find_by_words("yes", &by, NOW), alone.find_by_words("1", &by, NOW)), (None, None));
    assert_eq!(alone.approvals_for(&by), ["dangerous"]);
    assert_eq!(taken(alone.answer("dangerous", press("once"), &by, NOW)), Answer::Approved(Verdict::Once));
}

#[test]
fn somebody_is_told_once_that_a_question_is_not_open_and_who_was_told_is_bounded() {
    let mut book = QuestionBook::default();
    assert!(book.notify_once("a", "8") && book.notify_once("a", "7") && book.notify_once("b", "8"));
    assert!(!book.notify_once("a", "8"));
    for number in 0..2 * ASKS_REMEMBERED_MAX {
        book.notify_once(&number.to_string(), "8");
    }
    assert_eq!(book.notified.len(), ASKS_REMEMBERED_MAX);
}

#[test]
fn a_session_waits_for_one_question_of_a_command_which_can_be_closed_for_the_next() {
    let of = |id: &str, session: &str| Question {
        command: Some(String::new()),
        session: SessionId(session.to_owned()),
        ..question(id)
    };
    let mut book = book([question("turn"), of("a", "s1"), of("b", "s2")]);
    assert_eq!(book.commands(), 2);
    let closed = book.close_command(&SessionId("s1".to_owned()));
    assert_eq!(closed.map(|question| question.id).as_deref(), Some("a"));
    assert_eq!(book.close_command(&SessionId("s1".to_owned())), None, "the question of a turn stays");
    assert_eq!((book.commands(), book.len()), (1, 2));
}

#[test]
fn politeness_and_punctuation_change_no_yes_and_no_no_but_asking_back_is_neither() {
    let asked = question("a");
    let yes = Some(AnswerChoice::Approve(Verdict::Once));
    for text in [
        "Yes please",
        "yes, please!",
        "OK.",
        "\u{1f44d}\u{1f3fd}",
        "Please approve",
        "Yes \u{2013} thanks",
        "yes yes",
        "ok, yes please",
    ] {
        assert_eq!(read(&asked, text), yes, "{text}");
    }
    for text in ["No thank you", "no, thanks.", "Cancel!", "\u{1f44e}\u{fe0f}", "no, no!"] {
        assert_eq!(read(&asked, text), Some(AnswerChoice::Deny { why: None }), "{text}");
    }
    for text in ["yes?", "yes no", "!yes", "-1", "yes and push it too", "not yes"] {
        assert_eq!(read(&asked, text), None, "{text}");
    }
}

#[test]
fn what_is_one_option_by_its_number_and_another_by_its_label_is_neither() {
    let options = [("1", "2"), ("2", "1")].map(|(id, label)| ChoiceOption::new(id, label)).to_vec();
    let strict = Question { options: options.clone(), ..choice("a", false) };
    assert_eq!(read(&strict, "1"), None);
    let free = Question { options, ..choice("a", true) };
    assert_eq!(
        read(&free, "1"),
        Some(AnswerChoice::Words("1".to_owned())),
        "in words of their own it says what it says"
    );
    let options = [("1", "tea"), ("2", "Tea!")].map(|(id, label)| ChoiceOption::new(id, label)).to_vec();
    let alike = Question { options, ..choice("a", false) };
    assert_eq!(
        (read(&alike, "TEA"), read(&alike, "Tea!"), read(&alike, "tea.")),
        (Some(press("1")), Some(press("2")), None)
    );
}

#[test]
fn words_count_for_a_question_only_once_it_has_its_receipt_and_were_said_after_it() {
    let (chat, ada) = (Chat::dm("7"), ada());
    let said = |at_ms: i64| Answerer { at_ms, ..by(&chat, &ada, Tier::User) };
    let mut open = QuestionBook::default();
    open.open(question("a"));
    assert_eq!((open.find_by_words("yes", &said(0), NOW), open.near_miss("perhaps", &said(0), NOW)), (None, None));
    assert!(open.approvals_for(&said(0)).is_empty() && open.has_undelivered_approval(&said(0)));
    open.mark_shown("a", chat.clone(), Receipt::new(vec!["p1".to_owned()], 50_000));
    let earlier = said(50_000 - ASK_CLOCK_SLACK_MS - 1);
    assert_eq!((open.find_by_words("yes", &earlier, NOW), open.waiting_for(&earlier, NOW)), (None, 0));
    assert!(open.approvals_for(&earlier).is_empty() && open.has_undelivered_approval(&earlier));
    for at_ms in [0, 50_000 - ASK_CLOCK_SLACK_MS, 60_000] {
        let by = said(at_ms);
        assert!(open.find_by_words("yes", &by, NOW).is_some() && !open.has_undelivered_approval(&by), "{at_ms}");
        assert_eq!((open.approvals_for(&by), open.waiting_for(&by, NOW)), (vec!["a".to_owned()], 1));
    }
    let mut unsent = QuestionBook::default();
    unsent.open(question("a"));
    assert_eq!(taken(unsent.answer("a", press("once"), &earlier, NOW)), Answer::Approved(Verdict::Once), "it is named");
}

#[test]
fn a_bare_word_and_a_bare_command_mean_the_newest_question_that_is_there() {
    let (chat, ada) = (Chat::dm("7"), ada());
    let by = by(&chat, &ada, Tier::User);
    let mut book = book([question("a"), question("b")]);
    book.open(question("not yet"));
    assert_eq!(book.approvals_for(&by), ["b", "a"]);
    assert_eq!(book.find_by_words("yes", &by, NOW).map(|(id, _)| id).as_deref(), Some("b"));
    assert_eq!(book.waiting_for(&by, NOW), 2);
    let stranger = Sender::new("9");
    assert_eq!(book.waiting_for(&Answerer { sender: &stranger, ..by }, NOW), 0, "they are not theirs to answer");
}

#[test]
fn a_short_text_that_is_no_answer_is_told_the_options_once_and_a_longer_one_never() {
    let (chat, group, ada) = (Chat::dm("7"), Chat::new(ChatType::Group, "g"), ada());
    let direct = by(&chat, &ada, Tier::User);
    let mut open = book([choice("a", false)]);
    let long = "x".repeat(ASK_NEAR_CHARS_MAX + 1);
    assert_eq!((open.near_miss(&long, &direct, NOW), open.near_miss("one\ntwo", &direct, NOW)), (None, None));
    assert_eq!(open.near_miss("milk", &direct, NOW).map(|question| question.id).as_deref(), Some("a"));
    assert_eq!(open.near_miss("milk", &direct, NOW), None, "said again it is a message");
    assert!(open.get("a").is_some());
    let mut receipt = book([Question { chat: group.clone(), origin: group.clone(), ..choice("a", false) }]);
    let loose = by(&group, &ada, Tier::User);
    assert_eq!(receipt.near_miss("milk", &loose, NOW), None, "people talk in a group");
    assert_eq!(receipt.near_miss("milk", &Answerer { quotes: Some("another"), ..loose }, NOW), None);
    assert!(receipt.near_miss("milk", &Answerer { quotes: Some("message of a"), ..loose }, NOW).is_some());
}

#[test]
fn presses_that_count_for_nothing_are_heeded_so_often_in_a_chat_and_their_count_is_bounded() {
    let mut book = QuestionBook::default();
    let heeded =
        |book: &mut QuestionBook, now_ms| (0..100).filter(|_| book.allows_press_notice("fake", "7", now_ms)).count();
    assert_eq!(heeded(&mut book, NOW), ASK_PRESSES_HEEDED_MAX as usize);
    assert_eq!(heeded(&mut book, NOW + NOTICE_INTERVAL_MS - 1), 0);
    assert_eq!(heeded(&mut book, NOW + NOTICE_INTERVAL_MS), ASK_PRESSES_HEEDED_MAX as usize);
    for chat in 0..2 * ASKS_REMEMBERED_MAX {
        assert!(book.allows_press_notice("fake", &format!("c{chat}"), NOW), "another chat has its own");
    }
    assert_eq!(book.presses.len(), ASKS_REMEMBERED_MAX);
}

#[test]
fn a_question_is_answered_where_it_arrived_and_where_its_chat_went() {
    let (thread, ada) = (Chat::new(ChatType::Group, "g").in_thread("t"), ada());
    let asked = Question { chat: thread.clone(), origin: thread.clone(), ..question("a") };
    let mut open = QuestionBook::default();
    open.open(asked);
    let whole = Chat::new(ChatType::Group, "g");
    open.mark_shown("a", whole.clone(), Receipt::default());
    assert!(open.find_by_words("yes", &by(&whole, &ada, Tier::User), NOW).is_some(), "its thread was gone");
    assert_eq!(open.approvals_for(&by(&thread, &ada, Tier::User)), ["a"], "it came up there");
    let moved = Chat::new(ChatType::Group, "G");
    open.follow("other", &whole, &moved);
    assert!(open.find_by_words("yes", &by(&moved, &ada, Tier::User), NOW).is_none());
    open.follow("fake", &whole, &moved);
    assert!(open.find_by_words("yes", &by(&moved, &ada, Tier::User), NOW).is_some());
}
