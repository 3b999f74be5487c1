//! What each row of the table measures.

use std::{
    fs,
    io::Write,
    os::unix::fs::FileExt,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_agent::{Message, Role};
use hermes_core::ids::SessionId;
use hermes_host::{
    clock::{Clock, SystemClock},
    store::{Admit, EndTurn, NewMessage, NewSession, Store, TurnEnd},
};
use hermes_tests::{Isolation, World, artefacts, until};

use crate::{
    Measured,
    bot_api::BotApi,
    frames::{self, Isolated},
    process,
};

const HEAD: &str = "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\nlog = \"error\"\n\n";
const ECHO: &str = "[agent]\nruntime = \"echo\"\n\n";

fn scripted(name: &str, isolation: Isolation, more: &str) -> String {
    format!("[adapter.{name}]\nplugin = \"scripted\"\nisolation = \"{}\"\n{more}\n", isolation.word())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn percentile(values: &mut [f64], percent: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() * percent / 100).min(values.len() - 1)]
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// From the start of the process to the moment at which every adapter's `connect` was seen.
pub fn start() -> Vec<Measured> {
    let mut measured = Vec::new();
    for (count, budget_ms) in [(1, 30.0), (12, 120.0)] {
        for isolation in Isolation::BOTH {
            let sections: String =
                (0..count).map(|n| scripted(&format!("s{n}"), isolation, "socket = \"SOCKET\"")).collect();
            let mut world = World::with("");
            world.configure(&format!("{HEAD}{ECHO}{sections}"));
            let mut runs = Vec::new();
            for run in 0..8 {
                let before = world.scripted.seen().iter().filter(|said| said["saw"] == "connect").count();
                let started = Instant::now();
                world.launch();
                world.scripted.wait("every adapter connects", 60, |seen| {
                    (seen.iter().filter(|said| said["saw"] == "connect").count() >= before + count).then_some(())
                });
                // The first run copies the library; the later ones are what an operator restarts.
                if run > 0 {
                    runs.push(ms(started.elapsed()));
                }
                world.kill();
            }
            let median = median(runs);
            measured.push(Measured::new(
                format!("{count}, {}", isolation.word()),
                format!("{median:.1} ms"),
                median <= budget_ms,
            ));
        }
    }
    measured
}

fn with_telegram(api: &BotApi, isolation: Isolation, agent: &str) -> World {
    let world = World::with("");
    world.configure(&format!(
        "{HEAD}{agent}[adapter.telegram]\ntoken = \"42:bench\"\nbase_url = \"{}\"\nisolation = \"{}\"\naccess = {{ allow_all = true }}\n",
        api.base(),
        isolation.word(),
    ));
    world
}

/// The host with Telegram in-process, idle and after sixty messages.
pub fn memory() -> Vec<Measured> {
    let api = BotApi::start();
    let mut world = with_telegram(&api, Isolation::InProcess, ECHO);
    world.launch();
    world.wait_state("telegram", "online");
    let idle = mib(process::pss_kib(world.pid()));
    for n in 0..60 {
        api.push(7, &format!("message {n}"));
    }
    api.wait_sent(60);
    let after = mib(process::pss_kib(world.pid()));
    world.stop();
    vec![
        Measured::new("telegram in-process, idle", format!("{idle:.1} MB"), idle <= 10.0),
        Measured::new("telegram in-process, after 60 messages", format!("{after:.1} MB"), after <= 12.0),
    ]
}

/// Eleven more of an adapter without TLS.
pub fn further_adapters() -> Vec<Measured> {
    let mut measured = Vec::new();
    for (isolation, budget_mb) in [(Isolation::InProcess, 2.0), (Isolation::Process, 5.0)] {
        let mut sizes = Vec::new();
        for count in [1, 12] {
            let sections: String =
                (0..count).map(|n| scripted(&format!("s{n}"), isolation, "socket = \"SOCKET\"")).collect();
            let mut world = World::with("");
            world.configure(&format!("{HEAD}{ECHO}{sections}"));
            world.launch();
            for n in 0..count {
                world.wait_state(&format!("s{n}"), "online");
            }
            sizes.push(mib(process::pss_kib(world.pid())));
            world.stop();
        }
        let each = (sizes[1] - sizes[0]) / 11.0;
        measured.push(Measured::new(isolation.word(), format!("{each:.2} MB each"), each <= budget_mb));
    }
    measured
}

/// The whole way, with a model over HTTP, counted as processor time of the host and its children.
pub fn cpu_per_message() -> Vec<Measured> {
    const MESSAGES: u64 = 1000;
    let mut measured = Vec::new();
    for isolation in Isolation::BOTH {
        let api = BotApi::start();
        let agent = format!(
            "[agent]\nruntime = \"openai\"\nbase_url = \"{}/v1\"\nmodel = \"m\"\napi_key = \"k\"\n\n",
            api.base()
        );
        let mut world = with_telegram(&api, isolation, &agent);
        world.launch();
        world.wait_state("telegram", "online");
        for n in 0..50 {
            api.push(n % 16, "warm up");
        }
        api.wait_sent(50);
        let before = process::cpu(world.pid());
        for n in 0..MESSAGES {
            api.push(n % 16, "how much does a message cost?");
            // A steady conversation, not a pile: the cost of one message at a time.
            if n % 16 == 15 {
                api.wait_sent(50 + n + 1);
            }
        }
        api.wait_sent(50 + MESSAGES);
        let each = ms(process::cpu(world.pid()) - before) / MESSAGES as f64;
        world.stop();
        measured.push(Measured::new(
            format!("{}, openai runtime, 16 chats", isolation.word()),
            format!("{each:.2} ms"),
            each <= 0.6,
        ));
    }
    measured
}

/// From the moment a person writes to the moment the platform has the answer; the echo runtime adds nothing.
pub fn latency() -> Vec<Measured> {
    const EVENTS: usize = 1000;
    let mut measured = Vec::new();
    for isolation in Isolation::BOTH {
        let mut world = World::with("");
        world.configure(&format!(
            "{HEAD}{ECHO}{}",
            scripted("scripted", isolation, "socket = \"SOCKET\"\naccess = { allow_all = true }")
        ));
        world.start();
        world.wait_state("scripted", "online");
        let mut times = Vec::with_capacity(EVENTS);
        for n in 0..EVENTS {
            let chat = world.scripted.chat(&format!("c{}", n % 64));
            let due = Instant::now() + Duration::from_millis(10);
            let started = Instant::now();
            let already = n / 64;
            chat.says("how long does it take?");
            chat.hears(already + 1);
            times.push(ms(started.elapsed()));
            std::thread::sleep(due.saturating_duration_since(Instant::now())); // poll: the rate
        }
        world.stop();
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        measured.push(Measured::new(
            isolation.word(),
            format!("p50 {p50:.2} ms, p99 {p99:.2} ms"),
            p50 <= 2.0 && p99 <= 10.0,
        ));
    }
    measured
}

/// Runs the load generator; returns messages a second and the world, still running.
fn flood(isolation: Isolation, chats: u64, messages: u64) -> (f64, World) {
    let mut world = World::with("");
    let flood =
        format!("flood = {{ chats = {chats}, messages = {messages}, window = 8 }}\naccess = {{ allow_all = true }}");
    world.configure(&format!("{HEAD}{ECHO}{}", scripted("scripted", isolation, &flood)));
    let started = Instant::now();
    world.launch();
    let wanted = format!("flood answered {messages} of");
    until("the flood is answered", 300, || {
        world.told_if_up(&["status", "--json"]).filter(|status| status.contains(&wanted))
    });
    let rate = messages as f64 / started.elapsed().as_secs_f64();
    (rate, world)
}

/// Inbox committed, echo turn, outbox settled, with every fsync.
pub fn throughput() -> Vec<Measured> {
    let mut measured = Vec::new();
    for isolation in Isolation::BOTH {
        let (rate, mut world) = flood(isolation, 64, 40_000);
        world.stop();
        measured.push(Measured::new(
            format!("{}, synchronous=FULL", isolation.word()),
            format!("{rate:.0} events/s"),
            rate >= 10_000.0,
        ));
    }
    measured
}

/// What the disk below the database can do.
pub fn disk() -> Vec<Measured> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = fs::File::create(folder.path().join("fsync")).expect("the folder is ours");
    let started = Instant::now();
    let mut count = 0_u64;
    while started.elapsed() < Duration::from_secs(1) {
        file.write_all_at(&[1; 4096], count % 256 * 4096).expect("the disk has room");
        file.sync_data().expect("the disk syncs");
        count += 1;
    }
    let mut plain = fs::File::create(folder.path().join("write")).expect("the folder is ours");
    let started = Instant::now();
    let block = vec![1; 1 << 20];
    for _ in 0..64 {
        plain.write_all(&block).expect("the disk has room");
    }
    plain.sync_all().expect("the disk syncs");
    let rate = 64.0 / started.elapsed().as_secs_f64();
    vec![
        Measured::new("4 KiB write and fdatasync", format!("{count}/s"), None),
        Measured::new("sequential write with one sync", format!("{rate:.0} MiB/s"), None),
    ]
}

/// A `send` that the adapter answers at once, from the caller and back.
pub fn round_trip() -> Vec<Measured> {
    const CALLS: usize = 20_000;
    let payload = frames::payload();
    let mut isolated = Isolated::start(&artefacts().host(), &artefacts().fixture("scripted"));
    let (status, _) = isolated.call("connect", b"{}");
    assert_eq!(status, 0);
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let started = Instant::now();
        let (status, _) = isolated.call("send", &payload);
        times.push(started.elapsed().as_secs_f64() * 1e6);
        assert_eq!(status, 0);
    }
    let memory = mib(process::pss_kib(isolated.pid()));
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    let mut measured = vec![Measured::new(
        format!("isolated (the runner: {memory:.1} MB PSS)"),
        format!("p50 {p50:.1} µs, p99 {p99:.1} µs"),
        p50 <= 60.0,
    )];
    let mut times = crate::in_process::round_trips(CALLS, &payload);
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    measured.push(Measured::new(
        "in-process, thread hop included",
        format!("p50 {p50:.1} µs, p99 {p99:.1} µs"),
        p50 <= 8.0,
    ));
    measured
}

/// What ten thousand conversations cost once they are quiet.
pub fn idle_sessions() -> Vec<Measured> {
    let (_, mut small) = flood(Isolation::Process, 64, 640);
    let before = process::pss_kib(small.pid());
    small.stop();
    let (_, mut world) = flood(Isolation::Process, 10_000, 10_000);
    let quiet = until("the lanes end when they are idle", 120, || {
        let now = process::pss_kib(world.pid());
        (now < before + 20 * 1024).then_some(now)
    });
    world.stop();
    let more = mib(quiet.saturating_sub(before));
    vec![Measured::new("after one message each", format!("{more:.1} MB more"), more <= 20.0)]
}

/// A grown database: a million messages in ten thousand sessions.
pub fn million() -> Vec<Measured> {
    const SESSIONS: u64 = 10_000;
    const MESSAGES_EACH: u64 = 100;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("state.db");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = Store::open(&path, Arc::clone(&clock)).expect("a new store");
    let (store, epoch) = (opened.store, opened.epoch);
    let words =
        ["river", "mountain", "compiler", "deploy", "garden", "invoice", "orbit", "violin", "harbour", "lantern"];
    runtime.block_on(async {
        for session in 0..SESSIONS {
            let id = SessionId(format!("20260101_000000_{session:08x}"));
            let turn = store
                .admit(Admit {
                    session: id.clone(),
                    new_session: Some(new_session(&id)),
                    route: None,
                    inbox: Vec::new(),
                    epoch,
                    now_ms: 1,
                })
                .await
                .expect("the turn is admitted");
            let messages = (0..MESSAGES_EACH).map(|n| {
                let text = format!(
                    "message {n} of session {session} about the {} and the {}",
                    words[(n % 10) as usize],
                    words[(session % 10) as usize]
                );
                NewMessage::new(Message::new(if n % 2 == 0 { Role::User } else { Role::Assistant }, text), 1)
            });
            store
                .end_turn(EndTurn {
                    turn,
                    state: TurnEnd::Finished,
                    error: None,
                    session: id,
                    messages: messages.collect(),
                    deliveries: Vec::new(),
                    usage: Default::default(),
                    agent_state: None,
                    now_ms: 1,
                })
                .await
                .expect("the turn ends");
        }
        // The first search brings the index up to date.
        store.search("river", 1).await.expect("the search runs");
    });
    let mut opens = Vec::new();
    let mut searches = Vec::new();
    runtime.block_on(async {
        for n in 0..200_u64 {
            let id = SessionId(format!("20260101_000000_{:08x}", n * 49));
            let started = Instant::now();
            let history = store.history(&id, 100).await.expect("the history loads");
            opens.push(ms(started.elapsed()));
            assert_eq!(history.len(), 100);
            let started = Instant::now();
            let hits = store
                .search(&format!("session {} {}", n * 49, words[(n % 10) as usize]), 20)
                .await
                .expect("the search runs");
            searches.push(ms(started.elapsed()));
            assert!(!hits.is_empty());
        }
        store.close().await.expect("the store closes");
    });
    drop(store);
    let mut starts = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let opened = Store::open(&path, Arc::clone(&clock)).expect("the store opens");
        starts.push(ms(started.elapsed()));
        runtime.block_on(opened.store.close()).expect("the store closes");
    }
    let (open, search, start) = (percentile(&mut opens, 99), percentile(&mut searches, 99), median(starts));
    let size = mib(fs::metadata(&path).map_or(0, |file| file.len()) / 1024);
    vec![
        Measured::new(format!("open a session, p99 ({size:.0} MB database)"), format!("{open:.2} ms"), open <= 5.0),
        Measured::new("search, p99", format!("{search:.1} ms"), search <= 50.0),
        Measured::new("open the store", format!("{start:.1} ms"), start <= 100.0),
    ]
}

fn new_session(id: &SessionId) -> NewSession {
    NewSession {
        id: id.clone(),
        profile: "main".into(),
        source: "bench".into(),
        owner: None,
        settings: Default::default(),
        parent: None,
        title: None,
        started_ms: 1,
    }
}

/// A hundred hanging turns, kill -9, and the next host answers somebody new.
pub fn recovery() -> Vec<Measured> {
    let mut world = World::with("");
    let section = scripted("scripted", Isolation::InProcess, "socket = \"SOCKET\"\naccess = { allow_all = true }");
    world.configure(&format!("{HEAD}[agent]\nruntime = \"echo\"\ntest_words = true\n\n{section}"));
    world.start();
    world.wait_state("scripted", "online");
    for n in 0..100 {
        world.scripted.chat(&format!("c{n}")).says("/hang");
    }
    until("a hundred turns run", 60, || (world.status()["queues"]["turns"] == 100).then_some(()));
    world.kill();
    let lives = world.scripted.lives();
    let started = Instant::now();
    world.launch();
    world.scripted.wait_life(lives + 1);
    let chat = world.scripted.chat("somebody new");
    chat.says("are you there?");
    until("somebody new is answered", 60, || (!chat.received().is_empty()).then_some(()));
    let took = ms(started.elapsed());
    world.kill();
    vec![Measured::new("until a new chat is answered", format!("{took:.0} ms"), took <= 1000.0)]
}

/// Whether anything grows with the number of messages.
pub fn flat() -> Vec<Measured> {
    let (_, mut world) = flood(Isolation::InProcess, 64, 10_000);
    let small = (mib(process::pss_kib(world.pid())), process::descriptors(world.pid()));
    world.stop();
    let (_, mut world) = flood(Isolation::InProcess, 64, 100_000);
    let large = (mib(process::pss_kib(world.pid())), process::descriptors(world.pid()));
    world.stop();
    let flat = large.0 <= small.0 * 1.25 + 1.0 && large.1 <= small.1 + 4;
    vec![Measured::new(
        "after 10,000 and after 100,000",
        format!("{:.1} and {:.1} MB, {} and {} descriptors", small.0, large.0, small.1, large.1),
        flat,
    )]
}

/// Every adapter's library: its size, and how long `adapter inspect` and the whole check of it take.
pub fn libraries() -> Vec<Measured> {
    let world = World::with("");
    ["api_server", "echo", "telegram", "webchat"]
        .into_iter()
        .map(|id| {
            let library = artefacts().adapter(id);
            let size = mib(fs::metadata(&library).map_or(0, |file| file.len()) / 1024);
            let path = library.display().to_string();
            let started = Instant::now();
            world.told(&["adapter", "check", &path]);
            let took = ms(started.elapsed());
            Measured::new(id, format!("{size:.1} MB, checked in {took:.0} ms (in a process of its own)"), None)
        })
        .collect()
}
