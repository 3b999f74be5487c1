//! A host with a separate home folder.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    panic,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{Scripted, artefacts};

/// Isolation of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Inside of the host.
    InProcess,
    /// In a separate process.
    Process,
}

impl Isolation {
    /// Both isolations; most cases are tested with each of them.
    pub const BOTH: [Self; 2] = [Self::InProcess, Self::Process];

    /// Runs a case in both isolations at the same time, because most of it waits.
    pub fn both(case: impl Fn(Self) + Sync) {
        at_once(&Self::BOTH, |isolation| case(*isolation));
    }

    /// Returns the word of the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::Process => "process",
        }
    }
}

/// A home folder with one configuration, one host at a time, and the scripted platform.
pub struct World {
    folder: TempDir,
    /// The scripted platform.
    pub scripted: Scripted,
    host: Option<Child>,
    binary: PathBuf,
    environment: Vec<(String, String)>,
}

impl World {
    /// Creates a world whose only adapter is the scripted one; all people in `allowed` have access. Each
    /// message gets its own answer, at any rate of arrival.
    pub fn new(isolation: Isolation, allowed: &[&str]) -> Self {
        let list = allowed.iter().map(|id| format!("{id:?}")).collect::<Vec<_>>().join(", ");
        Self::with(&format!(
            "[adapter.scripted]\nisolation = \"{}\"\naccess = {{ allowed_users = [{list}], operators = [{list}] }}\nsocket = \"SOCKET\"\n\
             session = {{ busy = \"queue\", merge_ms = 0, receipts = false }}\n",
            isolation.word()
        ))
    }

    /// Creates a world with these sections, in which `SOCKET` is replaced by the scripted platform's socket.
    /// The scripted library is in `plugins/`.
    pub fn with(sections: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let scripted = Scripted::listen(folder.path().join("platform.sock"));
        let world = Self { folder, scripted, host: None, binary: artefacts().host(), environment: Vec::new() };
        fs::create_dir(world.home()).expect("the folder is new");
        fs::set_permissions(world.home(), fs::Permissions::from_mode(0o700)).expect("the folder is ours");
        fs::create_dir(world.plugins()).expect("the folder is new");
        world.install(&artefacts().fixture("scripted"), "scripted.so");
        let head = "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\n\n";
        world.configure(&format!("{head}{sections}"));
        world
    }

    /// Replaces the whole configuration, in which `SOCKET` is replaced by the scripted platform's socket.
    pub fn configure(&self, text: &str) {
        let text = text.replace("SOCKET", &self.scripted.path().display().to_string());
        let text = with_unix_sockets(&text);
        fs::write(self.config(), text).expect("the folder is ours");
        fs::set_permissions(self.config(), fs::Permissions::from_mode(0o600)).expect("the file is ours");
    }

    /// Sets another binary for future hosts.
    pub fn use_host(&mut self, binary: &Path) {
        binary.clone_into(&mut self.binary);
    }

    /// Adds an environment variable for future hosts.
    pub fn environment(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Removes all added environment variables.
    pub fn clear_environment(&mut self) {
        self.environment.clear();
    }

    /// Copies a library into `plugins/`.
    pub fn install(&self, library: &Path, name: &str) -> PathBuf {
        let to = self.plugins().join(name);
        fs::copy(library, &to).expect("the library was built");
        fs::set_permissions(&to, fs::Permissions::from_mode(0o644)).expect("the file is ours");
        to
    }

    /// Returns the home folder.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Returns the folder of plugin libraries.
    pub fn plugins(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    /// Returns the text of the configuration.
    pub fn config_text(&self) -> String {
        fs::read_to_string(self.config()).expect("it was written")
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("plugins.toml")
    }

    /// Returns the output of the hosts so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("host.log")).unwrap_or_default()
    }

    /// Starts a host, which may die early.
    pub fn launch(&mut self) {
        assert!(self.host.is_none(), "one host at a time");
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.path().join("host.log"))
            .expect("the folder is ours");
        let child = self
            .command(&["run"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log)
            .spawn()
            .expect("the host starts");
        self.host = Some(child);
    }

    /// Starts a host and waits until the scripted adapter runs.
    pub fn start(&mut self) -> &mut Self {
        let lives = self.scripted.lives();
        self.launch();
        self.scripted.wait_life(lives + 1);
        self
    }

    /// Runs a command of the host's binary with this home folder.
    pub fn cli(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the command starts")
    }

    /// Runs a command like [`World::cli`] that must succeed. Returns its output.
    pub fn told(&self, arguments: &[&str]) -> String {
        let output = self.cli(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("commands print UTF-8")
    }

    /// Runs a command like [`World::cli`]. Returns its output if it succeeded.
    pub fn told_if_up(&self, arguments: &[&str]) -> Option<String> {
        let output = self.cli(arguments);
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Creates a conversation of person 7 with the message `said`, which becomes its title, and detaches it
    /// from its chat. Returns its id.
    pub fn let_go(&self, said: &str) -> String {
        let chat = self.scripted.chat("7");
        let before = chat.received().len();
        for (words, answers) in [(said.to_owned(), 1), (format!("/title {said}"), 2), ("/new".to_owned(), 3)] {
            chat.says(&words);
            chat.hears(before + answers);
        }
        let told = self.told(&["session", "list", "--all", "--json"]);
        let sessions: Vec<Value> = serde_json::from_str(&told).expect("the sessions are JSON");
        let session = sessions.iter().find(|session| session["title"] == said);
        let session = session.unwrap_or_else(|| panic!("{said:?} is not among {told}"));
        session["id"].as_str().expect("a session has an id").to_owned()
    }

    /// Returns the output of `status --json`, once the host answers.
    pub fn status(&self) -> Value {
        until("the host tells its status", 30, || {
            let output = self.cli(&["status", "--json"]);
            output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("the status is JSON"))
        })
    }

    /// Returns one adapter's entry in the status.
    pub fn adapter(&self, name: &str) -> Option<Value> {
        self.status()["adapters"].as_array()?.iter().find(|adapter| adapter["name"] == name).cloned()
    }

    /// Waits until an adapter is in this state. Returns its entry.
    pub fn wait_state(&self, name: &str, state: &str) -> Value {
        until(&format!("{name} is {state}; the log:\n{}", self.log()), 40, || {
            self.adapter(name).filter(|adapter| adapter["state"] == state)
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bare(arguments);
        command.arg("--config").arg(self.config());
        command
    }

    /// Creates a command of the host's binary with this home folder and without a configuration.
    pub fn bare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).arg("--home").arg(self.home()).current_dir(self.folder.path());
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("XDG_RUNTIME_DIR", self.folder.path());
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// Returns the process id of the host.
    pub fn pid(&self) -> u32 {
        self.host.as_ref().expect("a host runs").id()
    }

    /// Returns the process ids of the adapters.
    pub fn children(&self) -> Vec<u32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).into_iter().flatten().filter_map(Result::ok);
        let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let mut children: Vec<u32> = children
            .flat_map(|pids| pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect();
        children.sort_unstable();
        children.dedup();
        children
    }

    /// Kills the adapter processes with kill -9.
    pub fn kill_children(&self) {
        for child in self.children() {
            // A process that has already ended needs no signal.
            let _ = Command::new("kill").args(["-9", &child.to_string()]).status();
        }
    }

    /// Returns true if the host still runs.
    pub fn runs(&mut self) -> bool {
        self.host.as_mut().is_some_and(|host| host.try_wait().expect("the child is ours").is_none())
    }

    /// Forgets a host that has ended by itself, so that another one can start.
    pub fn forget_ended(&mut self) {
        if !self.runs() {
            self.host = None;
        }
    }

    /// Kills the host with kill -9.
    pub fn kill(&mut self) {
        let mut host = self.host.take().expect("a host runs");
        host.kill().expect("the child is ours");
        host.wait().expect("the child is ours");
    }

    /// Waits until the host ends by itself, for example at a crash point. Returns its exit code, if there is
    /// one.
    pub fn ended(&mut self) -> Option<i32> {
        let mut host = self.host.take().expect("a host runs");
        let code = until("the host ends", 40, || host.try_wait().expect("the child is ours"));
        code.code()
    }

    /// Ends the host with SIGTERM. Returns its exit code.
    pub fn stop(&mut self) -> Option<i32> {
        let pid = self.pid();
        let status = Command::new("kill").arg(pid.to_string()).status().expect("kill exists");
        assert!(status.success());
        self.ended()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(host) = &mut self.host {
            // The test failed or did not end the host, which must not outlive it.
            if host.kill().is_ok() {
                let _reaped = host.wait();
            }
        }
        if thread::panicking() {
            let log = self.log();
            let start = log.len().saturating_sub(6000);
            let start = (start..log.len()).find(|at| log.is_char_boundary(*at)).unwrap_or(0);
            eprintln!("--- the host's log ---\n{}", &log[start..]);
        }
    }
}

/// Permits Unix sockets for every adapter with a `socket` in a configuration, because a sandboxed adapter has
/// none by default.
fn with_unix_sockets(text: &str) -> String {
    let section = |line: &str| Some(line.strip_prefix("[adapter.")?.strip_suffix(']')?.to_owned());
    let adapters: Vec<String> = text.lines().filter_map(section).collect();
    if !text.contains("socket = ") || adapters.is_empty() || text.contains("unix_sockets = ") {
        return text.to_owned();
    }
    text.replacen("[host]\n", &format!("[host]\nunix_sockets = {adapters:?}\n"), 1)
}

/// Runs each of the cases in a thread of its own; the first that panics is the panic of the caller.
pub fn at_once<C: Sync>(cases: &[C], run: impl Fn(&C) + Sync) {
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = cases.iter().map(|case| scope.spawn(move || run(case))).collect();
        for thread in threads {
            if let Err(why) = thread.join() {
                panic::resume_unwind(why);
            }
        }
    });
}

/// The shortest deadline of a wait, in seconds: a busy machine may take that long for anything.
pub(crate) const DEADLINE_S_MIN: u64 = 60;

/// Polls until `check` returns a result; fails with `what` after `seconds`, and not before [`DEADLINE_S_MIN`]. The
/// pauses grow, because most checks start a process.
pub fn until<T>(what: &str, seconds: u64, mut check: impl FnMut() -> Option<T>) -> T {
    let seconds = seconds.max(DEADLINE_S_MIN);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut pause = Duration::from_millis(10);
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {seconds} s: {what}");
        thread::sleep(pause); // poll
        pause = (pause * 3 / 2).min(Duration::from_millis(200));
    }
}
