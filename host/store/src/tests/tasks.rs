//! Tasks: visibility, notifications and recovery.

use hermes_core::task::{TaskChange, TaskEvent, TaskState};
use hermes_core::transcript::Role;
use hermes_protocol::Sender;

use super::*;

const KEY: &str = "agent:main:echo:group:G:5";

fn new(id: &str) -> NewTask {
    NewTask {
        id: id.to_owned(),
        kind: TaskKind::Task,
        profile: "main".to_owned(),
        owner: Some("echo:7".to_owned()),
        session: session_id(1),
        key: KEY.to_owned(),
        title: "mend the roof".to_owned(),
        body: "before it rains".to_owned(),
        claim: None,
        timeout_ms: Some(60_000),
        subscriber: Some(Seat { instance: "echo".to_owned(), chat: chat(), sender: Sender::new("7") }),
        now_ms: START_MS,
    }
}

fn seven() -> Viewer {
    Viewer::Person("echo:7".to_owned())
}

fn completed() -> TaskChange {
    TaskChange::Completed { result: "tight again".to_owned() }
}

async fn made(store: &Store, new: NewTask) -> TaskRow {
    match store.task_make(new).await.expect("it is written") {
        Made::Task(row) => *row,
        full => panic!("{full:?}"),
    }
}

async fn step_as(store: &Store, viewer: Viewer, task: &str, change: TaskChange, body: &str) -> Stepped {
    let step = TaskStep {
        task: task.to_owned(),
        viewer,
        change,
        body: body.to_owned(),
        by_key: Some("another".to_owned()),
        session: Some(session_id(2)),
        now_ms: START_MS + 1,
    };
    store.task_step(step).await.expect("it is written or refused")
}

async fn step(store: &Store, task: &str, change: TaskChange) -> TaskRow {
    match step_as(store, seven(), task, change, "").await {
        Stepped::Done(row) => *row,
        other => panic!("{other:?}"),
    }
}

async fn state(store: &Store, task: &str) -> TaskState {
    match store.task(Viewer::Operator, task).await.expect("it is read") {
        FoundTask::Task(row, _) => row.state,
        other => panic!("{other:?}"),
    }
}

fn kinds(untold: &Untold) -> Vec<TaskEvent> {
    untold.events.iter().map(|event| event.event).filter(|event| event.is_told()).collect()
}

/// Sends all pending notifications, like the host.
async fn tell(store: &Store) -> Vec<Vec<TaskEvent>> {
    let untold = store.tasks_untold().await.unwrap();
    for news in &untold {
        let upto = news.events.last().unwrap().id;
        let told = vec![(news.task.id.clone(), news.session.clone(), news.told_upto, upto)];
        let telling = Telling { told, delivery: Some(delivery("news")), wakes: Vec::new() };
        assert!(store.task_tell(telling.clone()).await.unwrap().is_some());
        assert_eq!(store.task_tell(telling).await.unwrap(), None, "told twice");
    }
    untold.iter().map(kinds).collect()
}

#[tokio::test]
async fn what_happens_is_told_once_and_what_was_before_is_not() {
    let home = Home::new();
    let (store, epoch) = home.store();
    made(&store, new("t1")).await;
    assert!(store.tasks_untold().await.unwrap().is_empty(), "that it was made is no news");
    step(&store, "t1", TaskChange::Claimed { epoch }).await;
    step_as(&store, seven(), "t1", TaskChange::Noted, "half").await;
    step(&store, "t1", completed()).await;
    assert_eq!(tell(&store).await, [[TaskEvent::Status, TaskEvent::Completed]]);
    let late = Seat { instance: "echo".to_owned(), chat: Chat::dm("late"), sender: Sender::new("8") };
    assert!(store.task_subscribe("t1", &session_id(9), late).await.unwrap());
    assert!(tell(&store).await.is_empty());
    step(&store, "t1", TaskChange::Archived).await;
    assert!(tell(&store).await.is_empty(), "nobody hears of the archive");
    let dead = store.deliveries(DeliveryFilter { limit: 10, ..Default::default() }).await.unwrap();
    assert_eq!(dead.len(), 1, "one delivery carried both");
}

#[tokio::test]
async fn a_task_is_seen_by_its_owner_in_its_conversation_and_by_operators_only() {
    let home = Home::new();
    let (store, _) = home.store();
    made(&store, new("tabc123")).await;
    let conversation = |key: &str| Viewer::Conversation(key.to_owned());
    let sees = async |viewer: Viewer| store.tasks(viewer, true, 10).await.unwrap().len();
    assert_eq!(sees(seven()).await, 1);
    assert_eq!(sees(Viewer::Operator).await, 1);
    assert_eq!(sees(conversation(KEY)).await, 1);
    assert_eq!(sees(conversation("agent:main:echo:group:H")).await, 0);
    assert_eq!(sees(Viewer::Person("echo:8".to_owned())).await, 0);
    let foreign = step_as(&store, Viewer::Person("echo:8".to_owned()), "tabc123", completed(), "").await;
    assert_eq!(foreign, Stepped::Unknown(None), "nothing is near that nobody may see");
    let near = step_as(&store, seven(), "tabc132", completed(), "").await;
    assert_eq!(near, Stepped::Unknown(Some("tabc123".to_owned())));
    assert!(matches!(step_as(&store, seven(), "tabc", TaskChange::Noted, "so").await, Stepped::Done(_)), "a beginning");
    made(&store, new("tabd")).await;
    let several = step_as(&store, seven(), "tab", TaskChange::Noted, "so").await;
    assert_eq!(several, Stepped::Ambiguous(vec!["tabc123".to_owned(), "tabd".to_owned()]));
    assert_eq!(step_as(&store, seven(), "", completed(), "").await, Stepped::Unknown(None));
}

#[tokio::test]
async fn an_arrow_that_does_not_exist_changes_nothing() {
    let home = Home::new();
    let (store, epoch) = home.store();
    made(&store, new("t1")).await;
    step(&store, "t1", TaskChange::Claimed { epoch }).await;
    let again = step_as(&store, seven(), "t1", TaskChange::Claimed { epoch }, "").await;
    let Stepped::Invalid(why, row) = again else { panic!("{again:?}") };
    assert_eq!((why.as_str(), row.state.word()), ("a task that is running cannot be claimed", "running"));
    assert_eq!(row.worker, Some(session_id(2)));
    let FoundTask::Task(_, events) = store.task(seven(), "t1").await.unwrap() else { panic!() };
    let events: Vec<_> = events.into_iter().map(|event| event.event).collect();
    assert_eq!(events, [TaskEvent::Created, TaskEvent::Claimed]);
}

#[tokio::test]
async fn a_dead_hosts_claim_is_said_to_have_crashed_once_and_goes_on_with_a_turn_that_goes_on() {
    let home = Home::new();
    let (store, epoch) = home.store();
    for id in ["t1", "t2"] {
        made(&store, new(id)).await;
        step(&store, id, TaskChange::Claimed { epoch }).await;
    }
    // The claimer of the second task is in the middle of a turn.
    running(&store, epoch, 2, Vec::new()).await;
    store.write(|db| Ok(db.execute("UPDATE tasks SET worker = 'nobody' WHERE id = 't1'", [])?)).await.unwrap();
    drop(store);
    let (store, epoch) = home.store();
    store.recover(epoch, START_MS).await.unwrap();
    assert_eq!(state(&store, "t1").await, TaskState::Crashed { attempts: 1 });
    assert_eq!(state(&store, "t2").await, TaskState::Running { epoch, attempt: 1 });
    assert_eq!(tell(&store).await, [[TaskEvent::Crashed]]);
    drop(store);
    let (store, epoch) = home.store();
    store.recover(epoch, START_MS).await.unwrap();
    assert!(tell(&store).await.is_empty(), "once");
}

#[tokio::test]
async fn a_turn_that_is_a_task_ends_it_with_its_answer_or_why_there_is_none() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let ends = [
        (1, TurnEnd::Finished, TaskState::Completed { result: "forty-two".to_owned() }),
        (2, TurnEnd::Failed, TaskState::GaveUp { why: "no model".to_owned() }),
        (3, TurnEnd::Interrupted, TaskState::GaveUp { why: "it was stopped".to_owned() }),
    ];
    for (n, end, expected) in ends {
        let id = format!("t{n}");
        let admit = Admit {
            session: session_id(n),
            new_session: Some(new_session(n)),
            route: None,
            inbox: Vec::new(),
            epoch,
            now_ms: START_MS,
        };
        let claim = Some((epoch, Some(session_id(n))));
        let task = NewTask { kind: TaskKind::Background, claim, timeout_ms: None, ..new(&id) };
        let turn = store.admit_task(admit, task).await.unwrap();
        assert_eq!(state(&store, &id).await, TaskState::Running { epoch, attempt: 1 });
        store
            .end_turn(EndTurn {
                turn,
                state: end,
                error: (end == TurnEnd::Failed).then(|| "no model".to_owned()),
                session: session_id(n),
                messages: vec![NewMessage::new(Message::new(Role::Assistant, "forty-two"), START_MS)],
                deliveries: Vec::new(),
                usage: Usage::default(),
                agent_state: None,
                observed: None,
                now_ms: START_MS,
            })
            .await
            .unwrap();
        assert_eq!(state(&store, &id).await, expected);
    }
}

#[tokio::test]
async fn what_the_host_did_by_itself_is_not_gone_on_with_after_a_crash() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let claim = |n| Some((epoch, Some(session_id(n))));
    let run = |n: u32| NewTask { kind: TaskKind::Run, claim: claim(n), ..new(&format!("t{n}")) };
    let opens = |n: u32| event(&run_event(&format!("t{n}")));
    let (_, begun) = store.task_run(run(1), opens(1), Vec::new(), 2, Vec::new()).await.unwrap();
    let (_, waits) = store.task_run(run(2), opens(2), Vec::new(), 2, Vec::new()).await.unwrap();
    let (full, none) = store.task_run(run(3), opens(3), Vec::new(), 2, Vec::new()).await.unwrap();
    assert_eq!((full, none), (Made::TooManyRun(2), None));
    let turn = running(&store, epoch, 1, vec![begun.unwrap()]).await;
    drop(store);
    let (store, epoch) = home.store();
    let found = found(&store, epoch).await;
    assert!(found.cut_off.is_empty() && found.pending.is_empty(), "neither goes on");
    assert_eq!(turn_word(&store, turn).await, "failed");
    assert_eq!(inbox_word(&store, begun.unwrap()).await, "answered");
    assert_eq!(inbox_word(&store, waits.unwrap()).await, "dropped");
    for id in ["t1", "t2"] {
        assert_eq!(state(&store, id).await, TaskState::Crashed { attempts: 1 });
    }
}

#[tokio::test]
async fn a_turn_that_goes_on_though_its_task_is_over_keeps_its_place() {
    let home = Home::new();
    let (store, epoch) = home.store();
    let run =
        |n: u32| NewTask { kind: TaskKind::Run, claim: Some((epoch, Some(session_id(n)))), ..new(&format!("t{n}")) };
    let opens = |n: u32| event(&run_event(&format!("t{n}")));
    store.task_run(run(1), opens(1), Vec::new(), 1, Vec::new()).await.unwrap();
    assert!(store.task_works(&session_id(1)).await.unwrap());
    step(&store, "t1", completed()).await;
    assert!(!store.task_works(&session_id(1)).await.unwrap());
    let (full, none) = store.task_run(run(2), opens(2), Vec::new(), 1, vec![session_id(1)]).await.unwrap();
    assert_eq!((full, none), (Made::TooManyRun(1), None));
    let (made, _) = store.task_run(run(2), opens(2), Vec::new(), 2, vec![session_id(1)]).await.unwrap();
    assert!(matches!(made, Made::Task(_)), "{made:?}");
    let (full, _) = store.task_run(run(3), opens(3), Vec::new(), 2, vec![session_id(2)]).await.unwrap();
    assert!(matches!(full, Made::Task(_)), "one that runs counts once: {full:?}");
}

#[tokio::test]
async fn time_runs_out_for_whoever_says_nothing() {
    let home = Home::new();
    let (store, epoch) = home.store();
    made(&store, new("t1")).await;
    assert!(store.tasks_time_out(START_MS + 900_000).await.unwrap().is_empty(), "nobody does it yet");
    step(&store, "t1", TaskChange::Claimed { epoch }).await;
    assert!(store.tasks_time_out(START_MS + 60_000).await.unwrap().is_empty());
    let late = store.tasks_time_out(START_MS + 60_001).await.unwrap();
    assert_eq!(late[0].state, TaskState::TimedOut { attempts: 1 });
    assert_eq!(tell(&store).await, [[TaskEvent::TimedOut]]);
    step(&store, "t1", TaskChange::Claimed { epoch }).await;
    assert!(matches!(state(&store, "t1").await, TaskState::Running { attempt: 2, .. }));
}

#[tokio::test]
async fn nobody_keeps_more_open_tasks_than_there_may_be_and_what_is_over_is_forgotten() {
    let home = Home::new();
    let (store, _) = home.store();
    for n in 0..100 {
        made(&store, new(&format!("t{n:03}"))).await;
    }
    assert_eq!(store.task_make(new("tfull")).await.unwrap(), Made::TooMany(100));
    step(&store, "t000", completed()).await;
    step(&store, "t001", TaskChange::Archived).await;
    made(&store, new("tnext")).await;
    assert_eq!(store.tasks(seven(), false, 1_000).await.unwrap().len(), 99);
    store.sweep(START_MS + 400 * 86_400_000).await.unwrap();
    assert_eq!(store.tasks(Viewer::Operator, true, 1_000).await.unwrap().len(), 99, "what is open stays");
    let left = store.read(|db| Ok(db.query_row("SELECT count(*) FROM task_events", [], |row| row.get::<_, u32>(0))?));
    assert_eq!(left.await.unwrap(), 99);
}

#[tokio::test]
async fn reports_are_bounded_and_the_last_ones_stay() {
    let home = Home::new();
    let (store, _) = home.store();
    made(&store, new("t1")).await;
    for n in 0..110 {
        step_as(&store, seven(), "t1", TaskChange::Noted, &format!("report {n}")).await;
    }
    let FoundTask::Task(row, events) = store.task(seven(), "t1").await.unwrap() else { panic!() };
    assert_eq!(row.note.as_deref(), Some("report 109"));
    assert_eq!((events.len(), events[1].body.as_str()), (101, "report 10"));
}

#[tokio::test]
async fn however_much_happens_each_of_it_is_told_in_order() {
    let home = Home::new();
    let (store, _) = home.store();
    made(&store, new("t1")).await;
    for n in 0..45 {
        step_as(&store, seven(), "t1", TaskChange::Noted, &format!("report {n}")).await;
    }
    let mut told = Vec::new();
    for _ in 0..3 {
        told.extend(store.tasks_untold().await.unwrap().into_iter().flat_map(|news| news.events));
        tell(&store).await;
    }
    let told: Vec<String> = told.into_iter().filter(|event| event.event.is_told()).map(|event| event.body).collect();
    assert_eq!(told, (0..45).map(|n| format!("report {n}")).collect::<Vec<_>>());
    assert!(store.tasks_untold().await.unwrap().is_empty());
}
