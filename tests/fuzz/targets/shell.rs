//! The shell policy, compared with bash: a command that runs without approval never runs the canary.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hermes_agent::shell_policy::{self, Rules};

use crate::ring::{Target, texts};

/// The longest run of one command.
const RUN: Duration = Duration::from_millis(800);

/// The program that no free command runs. No list has it.
const CANARY: &str = "cn9";

/// Programs that a command finds besides the canary; none changes files.
const PROGRAMS: [&str; 5] = ["env", "xargs", "timeout", "nice", "true"];

const WORDS: &[&str] = &[
    "cn9",
    " ",
    "\n",
    "\t",
    "'",
    "\"",
    "\\",
    "\\\n",
    "$",
    "$(",
    ")",
    "`",
    "${",
    "}",
    "{",
    ",",
    "$'",
    "\\x63",
    "|",
    "&&",
    "||",
    ";",
    "&",
    "(",
    "((",
    "))",
    "[[",
    "]]",
    "[",
    "]",
    "<",
    ">",
    ">>",
    "<<<",
    "<<E\n",
    "<<'E'\n",
    "\nE\n",
    "{fd}>o",
    "2>&1",
    ">o ",
    "!",
    "#",
    "echo ",
    "true ",
    "printf ",
    "-v ",
    "test ",
    "x=",
    "x",
    "a[",
    "$((",
    "$x",
    "env ",
    "command ",
    "eval ",
    "exec ",
    "sh -c ",
    "bash -c ",
    "xargs ",
    "timeout 1 ",
    "nice ",
    "time ",
    "coproc ",
    "if ",
    "then ",
    "fi",
    "for i in 1; do ",
    "done",
    "f() { ",
    "alias a=",
    "read ",
    "declare -i ",
    "let ",
    "cd ",
    ". ",
    "trap ",
    " EXIT",
    "\r",
    "*",
    "?",
    "@",
    "+",
];

/// Commands in which words are changed.
pub fn shell() -> Target {
    let seeds = texts(&[
        "cn9",
        "echo cn9",
        "echo 'cn9' \"cn9\" # cn9",
        "true && echo cn9 || cn9",
        "(cn9); { cn9; }",
        "echo $(cn9)",
        "x='a[$(cn9)]'; echo $((x))",
        "test -v 'a[$(cn9)]'",
        "printf -v 'a[$(cn9)]' x",
        "[ -v 'a[$(cn9)]' ]",
        "{fd}>o cn9",
        "echo a > o cn9",
        "cat <<E\n$(cn9)\nE\n",
        "cat <<'E' && echo b\ncn9\nE\ncn9",
        "bash -c 'echo cn9'",
        "sh -c \"echo cn9\"",
        "timeout 1 nice env A=b cn9",
        "echo cn9 | xargs",
        "echo \\\n cn9",
        "time -p echo cn9",
        "! echo cn9; echo a#cn9",
    ]);
    Target::opened("shell", seeds, WORDS, || {
        let place = Place::new();
        Box::new(move |bytes| {
            let Ok(code) = std::str::from_utf8(bytes) else { return };
            let root = place.work.to_string_lossy();
            let rules = Rules { user_home: Some(root.to_string()), ..Rules::default() };
            let verdict = shell_policy::judge(code, &root, &root, &rules);
            // A command that reaches out of the folder, or ends processes, is judged and not run.
            let stays = !["/", "~", "..", "kill"].iter().any(|word| code.contains(word));
            if verdict.is_none() && stays && code.contains("cn") {
                assert!(!place.runs_canary(code), "a free command ran the canary");
            }
        })
    })
}

/// A folder for commands, and one for their programs.
struct Place {
    work: PathBuf,
    programs: PathBuf,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (work, programs) = (folder.path().join("work"), folder.path().join("programs"));
        fs::create_dir(&work).and_then(|()| fs::create_dir(&programs)).expect("a folder can be made");
        for name in PROGRAMS {
            let found =
                ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
            found.map(|path| symlink(path, programs.join(name))).transpose().expect("a link can be made");
        }
        for name in ["sh", "bash"] {
            symlink("/bin/bash", programs.join(name)).expect("a link can be made");
        }
        let canary = programs.join(CANARY);
        let script = format!("#!/bin/bash\n: > {}\n", folder.path().join("ran").display());
        fs::write(&canary, script).expect("a file can be written");
        fs::set_permissions(&canary, fs::Permissions::from_mode(0o755)).expect("it is ours");
        Self { work, programs, _folder: folder }
    }

    fn runs_canary(&self, code: &str) -> bool {
        let ran = self.programs.with_file_name("ran");
        let _ = fs::remove_file(&ran);
        // A file that an earlier command wrote would be a script of the folder, and such scripts run freely.
        if fs::read_dir(&self.work).is_ok_and(|mut files| files.next().is_some()) {
            fs::remove_dir_all(&self.work).and_then(|()| fs::create_dir(&self.work)).expect("the folder is ours");
        }
        let mut command = Command::new("/bin/bash");
        command.arg("-c").arg(format!("ulimit -t 1 -f 64 -u 256 2>&-\n{code}")).current_dir(&self.work).env_clear();
        command.env("PATH", &self.programs).env("HOME", &self.work);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Ok(child) = command.spawn() {
            ended(child);
        }
        ran.exists()
    }
}

/// Waits for a command, and ends it where it takes too long.
fn ended(mut child: Child) {
    let until = Instant::now() + RUN;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        sleep(Duration::from_millis(2)); // poll
    }
    let _ = child.kill();
    let _ = child.wait();
}
