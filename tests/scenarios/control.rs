//! Attempts of processes that the host started to use the control socket.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use hermes_tests::{Isolation, Model, World, artefacts, until};
use serde_json::{Value, json};

/// Error for a process without a valid token.
const REFUSED: &str = "this process was started by the host";

/// A host whose model runs `ls`, which is a script of the test; `1` is the operator, `2` an admin, `7` a user.
struct Attack {
    world: World,
    folder: tempfile::TempDir,
}

impl Attack {
    fn new(script: &str) -> Self {
        let model = Model::runs("ls");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut world = World::with(
            "[adapter.scripted]\nisolation = \"in-process\"\nsocket = \"SOCKET\"\n\
             access = { operators = [\"1\"], admins = [\"2\"], allowed_users = [\"7\", \"8\"] }\n\
             session = { merge_ms = 0, receipts = false, stream = \"off\", progress = \"off\" }\n",
        );
        let config = world.config_text().replace("[agent]\nruntime = \"echo\"\n\n", &model.section());
        world.configure(&config);
        world.environment("PATH", &format!("{}:/usr/bin:/bin", folder.path().display()));
        let host = format!("{} --home {}", artefacts().host().display(), world.home().display());
        let script = script.replace("HOST", &host).replace("DIR", &folder.path().display().to_string());
        let ls = folder.path().join("ls");
        fs::write(&ls, format!("#!/bin/sh\n{script}\n")).expect("the folder is ours");
        fs::set_permissions(&ls, fs::Permissions::from_mode(0o755)).expect("the file is ours");
        world.start();
        Self { world, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for a file of the script that ends with a line `over`.
    fn written(&self, name: &str) -> String {
        until(&format!("{name} is written; the log:\n{}", self.world.log()), 60, || {
            fs::read_to_string(self.path(name)).ok().filter(|text| text.ends_with("over\n"))
        })
    }
}

#[test]
fn a_tool_process_has_the_rights_of_the_person_whose_turn_it_is() {
    let mut attack = Attack::new(
        r#"out=DIR/out-$HERMES_SESSION_USER_ID
for c in 'task list' 'send scripted:8 hello' 'status' 'pairing list' 'pairing approve scripted ABCDEFGH' \
    'session list' 'outbox list' 'adapter disable nothing' 'reload' 'send scripted:8 x --file /etc/hostname' \
    'drain --undo' 'chat -m hello'; do
    HOST $c >DIR/said 2>&1; echo "$c: $? $(tr '\n' ' ' <DIR/said)" >>$out
done
[ "$HERMES_SESSION_USER_ID" = 1 ] || { HOST stop >DIR/said 2>&1; echo "stop: $? $(cat DIR/said)" >>$out; }
echo over >>$out"#,
    );
    let of = |attack: &Attack, who: &str| {
        attack.world.scripted.chat(who).says("go");
        attack.written(&format!("out-{who}"))
    };
    let user = of(&attack, "7");
    for line in user.lines().filter(|line| *line != "over") {
        let may = ["task list", "send scripted:8 hello"].iter().any(|may| line.starts_with(&format!("{may}:")));
        assert_eq!(line.contains(": 0 "), may, "{line}");
        assert!(may || line.contains("of a user is not allowed to do this") || line.starts_with("chat"), "{line}");
    }
    assert!(attack.world.runs());

    let admin = of(&attack, "2");
    let ok = |said: &str, command: &str| said.lines().any(|line| line.starts_with(&format!("{command}: 0 ")));
    for may in ["task list", "status", "pairing list"] {
        assert!(ok(&admin, may), "{may} in {admin}");
    }
    for may_not in ["session list", "outbox list", "reload", "stop", "chat -m hello"] {
        assert!(!ok(&admin, may_not), "{may_not} in {admin}");
    }

    let operator = of(&attack, "1");
    for may in ["status", "session list", "outbox list", "reload"] {
        assert!(ok(&operator, may), "{may} in {operator}");
    }
    assert!(!ok(&operator, "chat -m hello"), "a run takes no seat, in which it could approve: {operator}");
    assert!(!ok(&operator, "send scripted:8 x --file /etc/hostname"), "not every file: {operator}");
    assert_eq!(attack.world.stop(), Some(0));
}

#[test]
fn a_double_fork_without_an_environment_and_a_stolen_token_are_refused() {
    let mut attack = Attack::new(
        r#"(setsid -f env -i sh -c 'HOST stop >DIR/fork 2>&1; echo "$? over" >>DIR/fork')
setsid -f env -i sh -c "while ! [ -e DIR/go ]; do sleep 0.1; done
HERMES_CONTROL_TOKEN=$HERMES_CONTROL_TOKEN HOST stop >DIR/late 2>&1; echo \"\$? over\" >>DIR/late" >/dev/null 2>&1
setsid -f env -i sh -c 'while ! [ -e DIR/restarted ]; do sleep 0.1; done
HOST stop >DIR/left 2>&1; echo "$? over" >>DIR/left' >/dev/null 2>&1
HOST task list >DIR/now 2>&1; echo "$? over" >>DIR/now
echo "token: $HERMES_CONTROL_TOKEN""#,
    );
    let chat = attack.world.scripted.chat("1");
    chat.says("go");
    let answer = chat.hears(1).remove(0);
    assert!(answer.contains("token: [control token]"), "its output does not show the token: {answer}");
    let now = attack.written("now");
    assert!(now.contains("0 over"), "during the turn it is valid: {now}");
    let forked = attack.written("fork");
    assert!(forked.contains(REFUSED) && !forked.contains("0 over"), "{forked}");
    // The answer is delivered, so the turn has ended.
    fs::write(attack.path("go"), "").expect("the folder is ours");
    let late = attack.written("late");
    assert!(late.contains(REFUSED) && !late.contains("0 over"), "{late}");
    assert!(attack.world.runs());
    // The host adopted the orphans and reaps them.
    let pid = attack.world.pid();
    until("no orphan waits to be collected", 30, || {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let children: Vec<String> =
            lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
        let is_zombie =
            |pid: &String| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "));
        (!children.iter().any(is_zombie)).then_some(())
    });
    // A process that outlives the host does not become the operator of the next one.
    assert_eq!(attack.world.stop(), Some(0));
    attack.world.start();
    fs::write(attack.path("restarted"), "").expect("the folder is ours");
    let left = attack.written("left");
    assert!(left.contains(REFUSED) && !left.contains("0 over"), "{left}");
    assert_eq!(attack.world.stop(), Some(0));
}

#[test]
fn the_process_of_an_adapter_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut world = World::with("");
    let attack = folder.path().join("attack.sh");
    let (host, home, said) = (artefacts().host(), world.home(), folder.path().join("said"));
    let (host, home, said) = (host.display(), home.display(), said.display());
    fs::write(&attack, format!("until [ -S {home}/host.sock ]; do sleep 0.1; done\n{host} --home {home} stop >{said} 2>&1\necho \"$? over\" >>{said}\nsleep 60\n"))
        .expect("the folder is ours");
    // The sandbox is disabled, because access must be denied without it too.
    let config = world.config_text().replace("[host]\n", "[host]\nconfine = \"off\"\n");
    world.configure(&format!("{config}\n[adapter.evil]\ncommand = [\"/bin/sh\", \"{}\"]\n", attack.display()));
    world.launch();
    let said = until(&format!("the adapter was started; the log:\n{}", world.log()), 60, || {
        fs::read_to_string(folder.path().join("said")).ok().filter(|text| text.ends_with("over\n"))
    });
    assert!(said.contains(REFUSED) && !said.contains("0 over"), "{said}");
    assert!(world.runs());
    assert_eq!(world.stop(), Some(0));
}

#[test]
fn a_secret_that_an_adapter_made_is_shown_on_request_and_rotated() {
    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    let mut world = World::new(Isolation::InProcess, &["7"]);
    world.start();
    world.wait_state("scripted", "online");
    let call = |world: &World, method: &str, payload: Value| {
        let before = world.scripted.seen().len();
        world.scripted.tell(json!({ "do": "host_call", "method": method, "payload": payload }));
        world.scripted.wait("the host answers", 30, |seen| {
            seen.iter().skip(before).find(|said| said["method"] == method).cloned()
        })
    };
    call(&world, "kv.set", json!({ "key": "token", "value": SECRET }));
    call(&world, "announce", json!({ "label": "page", "url": format!("http://localhost/?token={SECRET}") }));
    until("it is printed without the secret", 30, || {
        world
            .log()
            .contains("page: http://localhost/?token=… (`hermes-host adapter link scripted` shows it)")
            .then_some(())
    });
    assert!(!world.log().contains(SECRET) && !world.told(&["status"]).contains(SECRET), "no terminal shows these");
    for words in [&["adapter", "link", "scripted"][..], &["scripted", "link"], &["script", "key"]] {
        assert_eq!(world.told(words), format!("page: http://localhost/?token={SECRET}\n"), "{words:?}");
    }
    let lives = world.scripted.lives();
    assert!(world.told(&["scripted", "key", "rotate"]).contains("the former one is no longer valid"));
    world.scripted.wait_life(lives + 1);
    let answer = call(&world, "kv.get", json!({ "key": "token" }));
    assert!(!answer.to_string().contains(SECRET), "the next life makes a new one: {answer}");
    let nothing = world.cli(&["scripted", "link", "rotate"]);
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("has no generated secret to rotate"), "{nothing:?}");
    assert_eq!(world.stop(), Some(0));
}
