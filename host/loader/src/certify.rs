//! `adapter certify FILE`: the conformance lists on a built library, as the host runs it.
//!
//! Two instances are created: one for the contract cases, one that connects to the platform simulator. The host calls
//! of both are answered here, without a store, and recorded for the cases. The caller is a process of its own, because
//! a library may end it.

mod board;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use hermes_adapter_abi::status;
use hermes_conformance::{HostCall, Outcome, RUN_ENDED, Sample, Subject, Watch};
use hermes_protocol::{CallError, method};
use serde_json::Value;
use tokio::sync::mpsc;

use self::board::Board;
use super::{
    AdapterHandle, AdapterLink, AdapterPlan, AdapterSettings, Answer, HostServices, Isolation, IsolationChoice,
    LoadError,
    crashes::Crashes,
    discover::{self, Admitted, Pin},
    files,
    handle::Shared,
    supervisor::Maker,
};

/// Name of the instance under test.
const INSTANCE: &str = "certify";

/// Time in which a cancelled call has to end.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the cases of `watch` on the library at `path` with this isolation. Needs a multi-threaded runtime, because
/// waiting for the platform simulator blocks a thread.
///
/// # Errors
///
/// The reason why the library cannot be tested, in one sentence.
pub async fn certify(
    path: &Path,
    sample: &Sample,
    isolation: Isolation,
    mut settings: AdapterSettings,
    watch: &mut Watch<'_>,
) -> Result<Vec<Outcome>, String> {
    settings.unix_sockets.extend(sample.unix_sockets.then(|| INSTANCE.to_owned()));
    let place = discover::place_of(path, &settings.search);
    let admitted = discover::admit_file(path, place, Pin::Ignore, &settings).map_err(|error| error.to_string())?;
    let trial = Trial { admitted: Arc::new(admitted), isolation, settings: Arc::new(settings) };
    let mut contract = trial.instance(&sample.config).await?;
    let mut outcomes = hermes_conformance::run_watched(&mut contract, watch).await;
    contract.end().await;
    let staged = sample.staged().map_err(|error| error.to_string())?;
    let Some((mut stage, config)) = staged else {
        outcomes.extend(hermes_conformance::without_stage().into_iter().inspect(|outcome| watch.tell(outcome)));
        return Ok(outcomes);
    };
    let mut connected = trial.instance(&config).await?;
    let secrets = hermes_conformance::secrets(&trial.admitted.manifest, &config);
    outcomes.extend(hermes_conformance::run_staged_watched(&mut connected, &mut stage, &secrets, watch).await);
    connected.end().await;
    Ok(outcomes)
}

/// The parts of which instances under test are created.
struct Trial {
    admitted: Arc<Admitted>,
    isolation: Isolation,
    settings: Arc<AdapterSettings>,
}

impl Trial {
    async fn instance(&self, config: &Value) -> Result<Certified, String> {
        let mut plan = AdapterPlan::new(INSTANCE, self.admitted.manifest.id.clone(), config.clone());
        plan.isolation = match self.isolation {
            Isolation::InProcess => IsolationChoice::InProcess,
            Isolation::Process => IsolationChoice::Process,
        };
        // Announcements have no reader here, and the board answers all other host calls.
        let (announcements, _) = mpsc::channel(1);
        let shared = Shared::new(&plan, Arc::clone(&self.settings), announcements);
        let handle = AdapterHandle { shared: Arc::new(shared) };
        let crashes = Arc::new(Crashes::of(&self.settings.home));
        let maker = Maker { handle, services: Arc::new(Nobody), stuck: Arc::default(), crashes };
        let media = self.settings.home.join("media").join(INSTANCE);
        files::private_folder(&media).map_err(|error| format!("{}: {error}", media.display()))?;
        let (board, calls) = Board::new(media.clone());
        let link = maker.create_link(&plan, &self.admitted, Arc::new(board), self.isolation).await;
        let link = link.map_err(|error| unmade(error, &self.admitted.path))?;
        let manifest = self.admitted.manifest_json.clone().into_bytes();
        Ok(Certified { link, manifest, calls, waiting: VecDeque::new(), run: None, media, end: self.settings.end })
    }
}

/// Returns the reason why no instance of the library at `path` was created. The message names the sample configuration,
/// because there is no section to correct.
fn unmade(error: LoadError, path: &Path) -> String {
    let path = path.display();
    let mend = "write the keys of the adapter in [config] of a certify.toml, and pass that file with --sample";
    let instance = path.to_string();
    let error = match error {
        LoadError::ConfigRefused { problems, .. } => {
            return format!("the sample configuration is invalid for {path}: {problems}; {mend}");
        }
        LoadError::CreateFailed { why, .. } => {
            return format!("the sample configuration was rejected by {path}: {why}; {mend}");
        }
        LoadError::CreatePanicked { why, .. } => LoadError::CreatePanicked { instance, why },
        LoadError::CreateTimedOut { deadline_ms, .. } => LoadError::CreateTimedOut { instance, deadline_ms },
        LoadError::ProcessFailed { why, .. } => LoadError::ProcessFailed { instance, why },
        other => other,
    };
    error.to_string()
}

/// Services that refuse every call: the board answers instead.
struct Nobody;

impl HostServices for Nobody {
    fn call(&self, _: &AdapterHandle, method: &str, _: Vec<u8>) -> BoxFuture<'static, Result<Vec<u8>, CallError>> {
        let error = CallError::new("unsupported", format!("`{method}` is not supported during certification"));
        std::future::ready(Err(error)).boxed()
    }
}

/// An instance under test.
struct Certified {
    link: Arc<dyn AdapterLink>,
    manifest: Vec<u8>,
    calls: mpsc::Receiver<HostCall>,
    /// Calls that arrived while the caller waited for something else.
    waiting: VecDeque<HostCall>,
    run: Option<BoxFuture<'static, Answer>>,
    media: PathBuf,
    end: Duration,
}

impl Certified {
    async fn end(self) {
        self.link.destroy(self.end).await;
    }
}

/// Returns the answer of a call, in time or after its cancellation. `None`: no answer after `GRACE` either.
async fn answered(link: &Arc<dyn AdapterLink>, method: &str, payload: &[u8], deadline: Duration) -> Option<Answer> {
    let mut call = link.call(method, payload.to_vec());
    match tokio::time::timeout(deadline, &mut call).await {
        Ok(answer) => Some(answer),
        Err(_) => tokio::time::timeout(GRACE, call.cancelled()).await.ok(),
    }
}

impl Subject for Certified {
    fn manifest(&self) -> Vec<u8> {
        self.manifest.clone()
    }

    fn media_dir(&self) -> Option<PathBuf> {
        Some(self.media.clone())
    }

    async fn call(&mut self, method: &str, payload: &[u8], deadline: Duration) -> hermes_conformance::Answer {
        let answer = answered(&self.link, method, payload, deadline).await;
        let is_up = method == method::CONNECT && answer.as_ref().is_some_and(Answer::is_ok);
        if is_up {
            self.run = Some(self.link.call(method::RUN, b"{}".to_vec()).boxed());
        }
        told(answer)
    }

    async fn next_host_call(&mut self, deadline: Duration) -> Option<HostCall> {
        if let Some(call) = self.waiting.pop_front() {
            return Some(call);
        }
        let (calls, run) = (&mut self.calls, &mut self.run);
        let ended = async {
            match run.as_mut() {
                Some(run) => run.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            call = calls.recv() => call,
            answer = ended => {
                self.run = None;
                // Calls that the instance made before `run` ended come before the end.
                while let Ok(call) = self.calls.try_recv() {
                    self.waiting.push_back(call);
                }
                self.waiting.push_back(HostCall { method: RUN_ENDED.to_owned(), payload: answer.payload });
                self.waiting.pop_front()
            }
            () = tokio::time::sleep(deadline) => None,
        }
    }

    async fn shutdown(&mut self, deadline: Duration) -> hermes_conformance::Answer {
        let answer = tokio::time::timeout(deadline.saturating_add(GRACE), self.link.shutdown(deadline)).await;
        told(answer.ok())
    }
}

fn told(answer: Option<Answer>) -> hermes_conformance::Answer {
    answer.map_or_else(hermes_conformance::Answer::never, |answer| {
        hermes_conformance::Answer::new(answer.status, answer.payload)
    })
}

/// The answer to a call that failed.
fn refused(error: &CallError) -> (i32, Vec<u8>) {
    (status::ERR, serde_json::to_vec(error).expect("an error is always JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trial_lacks_is_named_by_its_file_and_its_sample() {
        let (instance, path) = (|| INSTANCE.to_owned(), Path::new("/p/libx.so"));
        let refused =
            LoadError::ConfigRefused { instance: instance(), problems: "requires the key `token`".to_owned() };
        let said = unmade(refused, path);
        assert!(
            said.starts_with("the sample configuration is invalid for /p/libx.so: requires the key `token`; "),
            "{said}"
        );
        assert!(said.contains("--sample") && !said.contains("[adapter."), "{said}");
        let failed = LoadError::CreateFailed { instance: instance(), why: "no".to_owned() };
        assert!(unmade(failed, path).contains("--sample"));
        let gone =
            LoadError::ProcessFailed { instance: instance(), why: "the process exited with code 127".to_owned() };
        assert_eq!(unmade(gone, path), "the process of /p/libx.so did not start: the process exited with code 127");
    }
}
