//! Tools for authors of adapters: the crate template and the trial of a library. `tests/e2e/test_guide.py`
//! tests the complete path with a compiler.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use hermes_tests::{artefacts, until};
use tempfile::TempDir;

/// Time limit of all waits, in seconds.
const PATIENCE_S: u64 = 30;

/// Returns a command in a separate folder, which is removed at the end.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(artefacts().host());
    command.args(arguments).current_dir(folder).env_remove("HERMES_HOST_HOME");
    command.env("HOME", folder).env("TMPDIR", folder);
    command
}

/// A run of `adapter try` with the library of the template.
struct Trial {
    folder: TempDir,
    child: Child,
    typed: Option<ChildStdin>,
    shown: Arc<Mutex<String>>,
}

impl Trial {
    fn begin(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let library = artefacts().template().display().to_string();
        let arguments = [&["adapter", "try", &library, "--set", "listen=127.0.0.1:0"], more].concat();
        let mut command = command(folder.path(), &arguments);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = piped.spawn().expect("the binary was built");
        let (typed, out) = (child.stdin.take(), child.stdout.take().expect("it is piped"));
        let shown = Arc::new(Mutex::new(String::new()));
        let writes = Arc::clone(&shown);
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let mut shown = writes.lock().expect("nobody panics with it");
                shown.push_str(&line);
                shown.push('\n');
            }
        });
        Self { folder, child, typed, shown }
    }

    fn shown(&self) -> String {
        self.shown.lock().expect("nobody panics with it").clone()
    }

    fn shows(&self, what: &str) {
        until(&format!("{what:?} is shown"), PATIENCE_S, || self.shown().contains(what).then_some(()));
    }

    /// Returns the address for connections of people.
    fn address(&self) -> String {
        self.shows("is online");
        self.shows("people connect to: ");
        let shown = self.shown();
        let line = shown.lines().find_map(|line| line.strip_prefix("people connect to: "));
        line.unwrap_or_else(|| panic!("no address in {shown}")).to_owned()
    }

    fn types(&mut self, line: &str) {
        let typed = self.typed.as_mut().expect("nobody has ended it");
        writeln!(typed, "{line}").expect("it reads");
    }

    /// Returns the exit code, and asserts that the folder is empty.
    fn ends(mut self) -> Option<i32> {
        let ended = until("the trial ends", PATIENCE_S, || self.child.try_wait().expect("it is our child"));
        let left: Vec<_> = fs::read_dir(self.folder.path()).expect("it is there").filter_map(Result::ok).collect();
        assert!(left.is_empty(), "it leaves {left:?}");
        ended.code()
    }
}

fn enters(address: &str, name: &str) -> TcpStream {
    let mut person = TcpStream::connect(address).expect("the door is open");
    writeln!(person, "{name}").expect("it hears");
    person
}

fn reads(person: &TcpStream) -> String {
    let mut line = String::new();
    BufReader::new(person).read_line(&mut line).expect("it tells");
    line
}

#[test]
fn a_library_on_trial_answers_everybody_and_the_terminal_and_shows_what_passes() {
    let mut trial = Trial::begin(&[]);
    let address = trial.address();
    assert!(trial.shown().contains("everyone who can write to it gets an answer"), "{}", trial.shown());
    let mut ann = enters(&address, "ann");
    writeln!(ann, "hello").expect("it hears");
    assert_eq!(reads(&ann), "hello\n");
    trial.shows("heard     ann in the direct chat ann: hello");
    trial.shows("sent      to the direct chat ann: hello");
    writeln!(ann, "#tea anybody here?").expect("it hears");
    assert_eq!(reads(&ann), "#tea anybody here?\n");
    trial.shows("sent      to the group #tea: anybody here?");
    trial.types("and I am the terminal");
    trial.shows("agent     and I am the terminal");
    // The end of the input ends the trial.
    trial.typed.take();
    assert_eq!(trial.ends(), Some(0));
}

#[test]
fn a_trial_that_is_interrupted_leaves_nothing_behind() {
    let trial = Trial::begin(&["--set", "access.allowed_users=[\"bob\"]"]);
    let mut ann = enters(&trial.address(), "ann");
    writeln!(ann, "let me in").expect("it hears");
    trial.shows("heard     ann in the direct chat ann: let me in");
    let interrupted = Command::new("kill").args(["-INT", &trial.child.id().to_string()]).status();
    assert!(interrupted.expect("there is a kill").success());
    let mut rest = String::new();
    // The connection may be reset instead of closed.
    let _ = ann.read_to_string(&mut rest);
    assert_eq!(rest.matches("let me in").count(), 0, "`--set` says who may speak: {rest}");
    assert_eq!(trial.ends(), Some(0));
}

#[test]
fn what_does_not_fit_the_library_is_said_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = artefacts().template().display().to_string();
    let tried = |arguments: &[&str]| {
        let done = command(folder.path(), arguments).stdin(Stdio::null()).output().expect("the binary was built");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, said) = tried(&["adapter", "try", &library, "--set", "lisen=127.0.0.1:0"]);
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("did you mean") && said.contains("--set KEY=VALUE"), "{said}");
    let (code, said) = tried(&["adapter", "try", "gone.so"]);
    assert!(code == Some(1) && said.contains("gone.so"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0, "nothing is left");
}

#[test]
fn a_new_crate_is_written_once_and_has_the_sdk_from_where_it_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace");
    let checkout = checkout.display().to_string();
    let made = |arguments: &[&str]| {
        let done = command(folder.path(), arguments).output().expect("the binary was built");
        (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    let (code, said) = made(&["adapter", "new", "my-chat", "--sdk", &checkout]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("cd my-chat") && said.contains("target/debug/libhermes_adapter_my_chat.so"), "{said}");
    let cargo = fs::read_to_string(folder.path().join("my-chat/Cargo.toml")).expect("it is written");
    assert!(cargo.contains(&format!("path = \"{checkout}/adapter-sdk\"")), "{cargo}");
    let (code, said) = made(&["adapter", "new", "my-chat", "--sdk", &checkout]);
    assert!(code == Some(1) && said.contains("already exists"), "{said}");
    let (code, said) = made(&["adapter", "new", "My Chat", "--sdk", &checkout]);
    assert!(code == Some(2) && said.contains("such as my-chat"), "{said}");
    let (code, said) = made(&["adapter", "new", "other", "--sdk", "my-chat"]);
    assert!(code == Some(2) && said.contains("not a checkout"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 1, "what is refused leaves nothing");
}
