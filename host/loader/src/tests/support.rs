//! A home with the hostile library, and a host that records its calls.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use hermes_protocol::{CallError, Chat, Outgoing};
use serde_json::json;
use tempfile::TempDir;
use tokio::{runtime::RuntimeFlavor, sync::mpsc};

use crate::{
    AdapterEvent, AdapterHandle, AdapterPlan, AdapterSettings, AdapterState, Adapters, HostServices, IsolationChoice,
    SearchPath, runner,
};

/// The longest wait of a test; only a failing test reaches it.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The library of `tests/fixtures/hostile`. Cargo puts it beside this test executable, as that of a dev-dependency.
pub(super) fn hostile_library() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let library = exe.with_file_name("libfixture_hostile.so");
    assert!(library.exists(), "{} is missing; cargo builds it with these tests", library.display());
    library
}

/// The child side of every test here: this executable is started again with these arguments.
///
/// In an ordinary run the word is not among the arguments, and nothing happens.
#[test]
fn adapter_runner_child() {
    if std::env::args().any(|argument| argument == runner::SUBCOMMAND) {
        super::contained::as_the_test_asks();
        runner::runner_main();
        // Bypasses the harness, which would print.
        std::process::exit(0);
    }
}

/// The command that makes this test executable the runner.
///
/// The path is not used: a build that replaces the file must not change the children.
pub(super) fn runner_command() -> Vec<std::ffi::OsString> {
    let path = module_path!().split_once("::").unwrap().1;
    let child = format!("{path}::adapter_runner_child");
    vec![
        "/proc/self/exe".into(),
        "--exact".into(),
        child.into(),
        "--nocapture".into(),
        "--test-threads=1".into(),
        "--".into(),
        runner::SUBCOMMAND.into(),
    ]
}

/// A home folder with a `plugins` folder.
pub(super) struct Home {
    folder: TempDir,
}

impl Home {
    pub(super) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("plugins")).unwrap();
        crate::files::private_folder(&folder.path().join("runtime")).unwrap();
        Self { folder }
    }

    /// With the hostile library.
    pub(super) fn hostile() -> Self {
        let home = Self::empty();
        fs::copy(hostile_library(), home.library()).unwrap();
        home
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn plugins(&self) -> PathBuf {
        self.path().join("plugins")
    }

    pub(super) fn library(&self) -> PathBuf {
        self.plugins().join("libhostile.so")
    }

    /// Short waits, and this executable as the runner.
    pub(super) fn settings(&self) -> AdapterSettings {
        let search = SearchPath { beside: None, folders: vec![self.plugins()] };
        let mut settings = AdapterSettings::new(self.path(), search);
        settings.runner = runner_command();
        settings.create = Duration::from_secs(10);
        settings.end = Duration::from_secs(10);
        settings.backoff_first = Duration::from_millis(10);
        settings.backoff_max = Duration::from_millis(100);
        settings.runtime_dir = Some(self.path().join("runtime"));
        settings
    }
}

/// A plan of the hostile library in this mode.
pub(super) fn plan(isolation: IsolationChoice, mode: &str) -> AdapterPlan {
    let mut plan = AdapterPlan::new("one", "hostile", json!({ "mode": mode, "token": "s3cret-token" }));
    plan.isolation = isolation;
    plan.secrets = vec!["s3cret-token".to_owned()];
    plan
}

/// Services that answer `emit` and record calls.
#[derive(Default)]
pub(super) struct Services {
    pub(super) calls: Mutex<Vec<(String, String)>>,
    /// Methods that are never answered.
    pub(super) silent: BTreeSet<&'static str>,
    /// `true` while the host refuses events.
    pub(super) full: AtomicBool,
}

impl HostServices for Services {
    fn call(
        &self,
        from: &AdapterHandle,
        method: &str,
        payload: Vec<u8>,
    ) -> BoxFuture<'static, Result<Vec<u8>, CallError>> {
        self.calls.lock().unwrap().push((from.instance().to_string(), method.to_owned()));
        if self.silent.contains(method) {
            return Box::pin(std::future::pending());
        }
        let answer = match method {
            "emit" if self.full.load(Ordering::Relaxed) => Err(CallError::new("unavailable", "the disk is full")),
            "emit" => Ok(json!({"type": "accepted", "inbox_id": payload.len()}).to_string().into_bytes()),
            "models.list" => Ok(b"[]".to_vec()),
            _ => Err(CallError::new("unsupported", "there is no such method")),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// A host that runs plans.
pub(super) struct Host {
    pub(super) adapters: Adapters,
    pub(super) services: Arc<Services>,
    pub(super) events: mpsc::Receiver<AdapterEvent>,
}

impl Host {
    pub(super) fn start(settings: AdapterSettings, plans: Vec<AdapterPlan>) -> Self {
        Self::with(settings, plans, Services::default())
    }

    pub(super) fn with(settings: AdapterSettings, plans: Vec<AdapterPlan>, services: Services) -> Self {
        let services = Arc::new(services);
        let (tell, events) = mpsc::channel(4096);
        let asked = Arc::clone(&services) as Arc<dyn HostServices>;
        Self { adapters: Adapters::start(plans, asked, tell, settings), services, events }
    }

    pub(super) fn one(&self) -> AdapterHandle {
        self.adapters.get("one").unwrap()
    }

    /// Returns the next event of this kind.
    pub(super) async fn event<T>(&mut self, mut want: impl FnMut(AdapterEvent) -> Option<T>) -> T {
        tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(found) = want(self.events.recv().await.unwrap()) {
                    return found;
                }
            }
        })
        .await
        .expect("the event did not come")
    }
}

/// Wait for an instance that does not end at the end of a test.
const HUNG: Duration = Duration::from_secs(2);

impl Drop for Host {
    /// Ends the instances before the home is removed, because they may still write into it.
    fn drop(&mut self) {
        let runtime = tokio::runtime::Handle::try_current();
        let Some(runtime) = runtime.ok().filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
        else {
            return;
        };
        tokio::task::block_in_place(|| runtime.block_on(self.adapters.shutdown(HUNG)));
    }
}

/// Waits until `is` accepts the state of the instance.
pub(super) async fn until(handle: &AdapterHandle, what: &str, mut is: impl FnMut(&AdapterState) -> bool) {
    let mut state = handle.shared.state.subscribe();
    let reached = tokio::time::timeout(PATIENCE, state.wait_for(|life| is(&life.state))).await;
    assert!(reached.is_ok(), "{what} was not reached; it is {:?}", handle.state());
}

/// Waits until the instance is online.
pub(super) async fn online(handle: &AdapterHandle) {
    until(handle, "online", AdapterState::is_online).await;
}

/// Creates a message with a command for the hostile adapter.
pub(super) fn message(text: &str) -> Outgoing {
    Outgoing::text(Chat::dm("1"), text)
}
