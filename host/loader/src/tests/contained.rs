//! Every entry of the inventory, attempted by a program and by a library: as root and as a plain user, with and without
//! Landlock.

use std::{
    collections::BTreeMap,
    fs,
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt, net::UnixListener, net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use hermes_adapter_abi::{SDK_VERSION, status};
use hermes_protocol::{Envelope, HostInfo, SendOutcome, method};
use rustix::io::FdFlags;
use seccompiler::{SeccompAction, SeccompFilter, TargetArch};
use serde_json::json;
use tempfile::TempDir;

use super::inventory::{By, CONTAINED, KEPT, KEPT_WITH_LANDLOCK};
use super::support::{PATIENCE, hostile_library, message, runner_command};
use crate::ffi::{HostPort, Reply};
use crate::frame::PROTOCOL;
use crate::process::{ChildSpec, HostHello};
use crate::sandbox::{Allowed, Ground};
use crate::{AdapterLink as _, process, schema};

/// A user without rights.
const NOBODY: u32 = 65_534;
/// Variables by which a test passes its case to its children.
const USER: &str = "HERMES_TEST_USER";
const WITHOUT_LANDLOCK: &str = "HERMES_TEST_WITHOUT_LANDLOCK";

/// The errors that count as a refusal.
const REFUSALS: [i32; 3] = [libc::EPERM, libc::EACCES, libc::ENOSYS];

/// Applies the user and the kernel features that the test demands to a child.
#[expect(clippy::disallowed_methods, reason = "the child of a test has no other way to hear of its case")]
pub(super) fn as_the_test_asks() {
    if std::env::var_os(WITHOUT_LANDLOCK).is_some() {
        let absent = BTreeMap::from([(libc::SYS_landlock_create_ruleset, Vec::new())]);
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let errno = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
        let filter = SeccompFilter::new(absent, SeccompAction::Allow, errno, arch).unwrap();
        let filter: seccompiler::BpfProgram = filter.try_into().unwrap();
        seccompiler::apply_filter(&filter).unwrap();
    }
    if let Some(user) = std::env::var(USER).ok().and_then(|user| user.parse().ok()) {
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_gid(rustix::process::Gid::from_raw(user)).unwrap();
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(user)).unwrap();
        // A new program image makes it the user of the whole process, and not of this thread alone.
        let error = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).env_remove(USER).exec();
        panic!("{error}");
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The attacking user, and the kernel.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Another user than the one of the tests.
    user: Option<u32>,
    landlock: bool,
}

impl Case {
    /// Returns every case that this user can test.
    fn all() -> Vec<Self> {
        let users: &[Option<u32>] = if is_root() { &[None, Some(NOBODY)] } else { &[None] };
        if !is_root() {
            eprintln!("not root: the attempts are made as a plain user only");
        }
        users.iter().flat_map(|user| [true, false].map(|landlock| Self { user: *user, landlock })).collect()
    }

    fn is_plain(self) -> bool {
        self.user.is_some() || !is_root()
    }

    fn env(self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        let user = self.user.map(|user| (USER.into(), user.to_string().into()));
        let landlock = (!self.landlock).then(|| (WITHOUT_LANDLOCK.into(), "1".into()));
        user.into_iter().chain(landlock).collect()
    }
}

/// A home, a process to attack, and `reach.c` in both forms.
struct Scene {
    folder: TempDir,
    victim: Child,
    _control: UnixListener,
    _secret: fs::File,
    user: Option<u32>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        // A victim that has ended was killed by an attempt, which its line shows.
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

impl Scene {
    fn new(user: Option<u32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let home = folder.path().join("home");
        for name in ["logs", "media/one", "data/one", "runtime"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        for name in [".env", "state.db", "spare", "spare-1", "spare-2"] {
            fs::write(home.join(name), "secret").unwrap();
        }
        fs::create_dir(folder.path().join("adapter")).unwrap();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/hostile/src/reach.c");
        for (flags, name) in [(&["-O1"][..], "adapter/reach"), (&["-shared", "-fPIC"], "home/media/one/reach.so")] {
            let mut cc = Command::new("cc");
            cc.args(flags).arg("-o").arg(folder.path().join(name)).args([source, "-lpthread"]);
            assert!(cc.status().expect("a C compiler, which links Rust as well").success());
        }
        fs::copy(hostile_library(), folder.path().join("adapter/hostile.so")).unwrap();
        let control = UnixListener::bind(home.join("host.sock")).unwrap();
        own(folder.path(), user);
        // A descriptor that a child inherits by accident.
        let secret = fs::File::open(home.join("state.db")).unwrap();
        rustix::io::fcntl_setfd(&secret, FdFlags::empty()).unwrap();
        let mut victim = Command::new("/bin/sleep");
        victim.arg("600").process_group(0).stdin(Stdio::null());
        if let Some(user) = user {
            victim.uid(user).gid(user);
        }
        let victim = victim.spawn().unwrap();
        Self { folder, victim, _control: control, _secret: secret, user }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the arguments of `reach`.
    fn words(&self, names: &str) -> String {
        let (home, victim) = (self.home(), self.victim.id());
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (own, control) = (home.join("media/one"), home.join("host.sock"));
        format!("{victim} {} {} {} {port} {names}", home.display(), own.display(), control.display())
    }

    fn allowed(&self, of: impl FnOnce(&Ground<'_>) -> std::io::Result<Allowed>) -> Allowed {
        let (home, none) = (self.home(), std::collections::BTreeSet::new());
        let allowed =
            of(&Ground { home: &home, user_home: None, private: &[], env: &[], unix_sockets: &none }).unwrap();
        own(self.folder.path(), self.user);
        allowed
    }

    /// Returns the outcome of each attempt: 0, or the error.
    fn outcomes(&self) -> BTreeMap<String, i32> {
        let text = fs::read_to_string(self.home().join("media/one/reach.txt")).unwrap();
        let line = |line: &str| {
            let (name, error) = line.split_once(' ').unwrap();
            (name.to_owned(), error.parse().unwrap_or_else(|_| panic!("{name} ended the process")))
        };
        text.lines().map(line).collect()
    }
}

/// Changes the owner of everything below `path`.
fn own(path: &Path, user: Option<u32>) {
    let Some(user) = user else { return };
    std::os::unix::fs::lchown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| own(&entry.unwrap().path(), Some(user)));
    }
}

/// Runs the attempts as a program of another language.
fn by_program(case: Case) -> BTreeMap<String, i32> {
    let scene = Scene::new(case.user);
    let program = vec![scene.at("adapter/reach").display().to_string(), scene.words("all")];
    let folder = scene.at("adapter");
    let allowed = scene.allowed(|ground| ground.program(&program, Some(&folder), "one", &json!({})));
    let mut command = runner_command();
    command.extend(allowed.arguments());
    command.extend(schema::parent());
    command.extend(["--instance".into(), "one".into(), "--exec".into()]);
    command.extend(program.iter().map(Into::into));
    let (_ours, theirs) = UnixStream::pair().unwrap();
    let (path, arguments) = command.split_first().unwrap();
    let mut child = Command::new(path);
    child.args(arguments).env_clear().envs(case.env()).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
    assert!(child.current_dir(&folder).spawn().unwrap().wait().unwrap().success());
    scene.outcomes()
}

/// A host that answers nothing.
struct Deaf;

impl HostPort for Deaf {
    fn call(&self, _: &str, _: Vec<u8>, reply: Reply) {
        reply.send(status::ERR, b"{}".to_vec());
    }

    fn log(&self, _: u8, _: &str, _: &str) {}

    fn max_level(&self) -> u8 {
        0
    }
}

/// Runs the attempts inside a library.
async fn by_library(case: Case) -> BTreeMap<String, i32> {
    let scene = Scene::new(case.user);
    let library = scene.at("adapter/hostile.so");
    let config = json!({ "mode": "ok", "token": "t" });
    let allowed = scene.allowed(|ground| ground.library(&library, "one", &[], &config));
    let mut command = runner_command();
    command.extend(allowed.arguments());
    command.extend(schema::runner_arguments(&library, &library));
    let child = process::start(&ChildSpec { command, env: case.env(), folder: None }).await.unwrap();
    let envelope = Envelope::new(HostInfo::new(SDK_VERSION, Vec::new()), "one", config);
    let hello = HostHello {
        protocol: PROTOCOL,
        envelope: serde_json::to_value(&envelope).unwrap(),
        create_ms: 60_000,
        log_level: 0,
        origin: library.display().to_string(),
    };
    let (link, _) = child.link("one", &hello, Arc::new(Deaf), PATIENCE).await.unwrap();
    let native = scene.home().join("media/one/reach.so");
    let text = format!("break reach {} {}", native.display(), scene.words("all"));
    let answer = link.call(method::SEND, serde_json::to_vec(&message(&text)).unwrap()).await;
    let sent: SendOutcome = serde_json::from_slice(&answer.payload).unwrap();
    assert!(matches!(sent, SendOutcome::Delivered { .. }), "{case:?}: {sent:?}");
    Arc::new(link).destroy(PATIENCE).await;
    scene.outcomes()
}

/// Compares the outcomes with the inventory.
fn judge(case: Case, is_library: bool, mut outcomes: BTreeMap<String, i32>) -> Vec<String> {
    let mut wrong = Vec::new();
    for entry in CONTAINED {
        let outcome = outcomes.remove(entry.name).unwrap_or_else(|| panic!("{} was not attempted", entry.name));
        let by_landlock = match entry.by {
            By::Filter | By::Rights | By::Host => false,
            By::Landlock => true,
            By::LandlockOfLibraries => true,
        };
        let open = (by_landlock && !case.landlock) || (entry.by == By::LandlockOfLibraries && !is_library);
        let right = match open {
            false => REFUSALS.contains(&outcome),
            // The page lists it as open, so no other mechanism may refuse it.
            true => outcome == 0 || !(entry.anyone && case.is_plain()),
        };
        if !right {
            wrong.push(format!("{}: {}", entry.name, std::io::Error::from_raw_os_error(outcome)));
        }
    }
    for (name, _) in KEPT {
        let outcome = outcomes.remove(*name).unwrap_or_else(|| panic!("{name} was not attempted"));
        if outcome != 0 {
            wrong.push(format!("{name}: {}", std::io::Error::from_raw_os_error(outcome)));
        }
    }
    let children = outcomes.remove(KEPT_WITH_LANDLOCK).expect("it was attempted");
    if (children == 0) != case.landlock {
        wrong.push(format!("{KEPT_WITH_LANDLOCK}: {children}"));
    }
    wrong.extend(outcomes.into_keys().map(|name| format!("{name} is not in the inventory")));
    wrong
}

#[test]
fn a_program_reaches_nothing_of_the_inventory() {
    for case in Case::all() {
        assert_eq!(judge(case, false, by_program(case)), [""; 0], "{case:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_reaches_nothing_of_the_inventory() {
    for case in Case::all() {
        assert_eq!(judge(case, true, by_library(case).await), [""; 0], "{case:?}");
    }
}

/// The attempts are real: without a sandbox a plain user succeeds with each of them.
#[test]
fn an_unconfined_process_reaches_what_the_inventory_says() {
    let user = is_root().then_some(NOBODY);
    let scene = Scene::new(user);
    let names: Vec<&str> = CONTAINED.iter().filter(|entry| entry.anyone).map(|entry| entry.name).collect();
    let mut command = Command::new(scene.at("adapter/reach"));
    command.arg(scene.words(&names.join(","))).stdin(Stdio::null()).stdout(Stdio::null());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    assert!(command.status().unwrap().success());
    let outcomes = scene.outcomes();
    assert_eq!(outcomes.len(), names.len());
    let refused: Vec<_> = outcomes.into_iter().filter(|(_, error)| *error != 0).collect();
    assert_eq!(refused, [], "an attempt that never succeeds shows nothing");
}
