//! Limits of a library: its memory, the cost of reloads, and libraries that must not be built.

use std::fs;

use hermes_tests::{Isolation, World, artefacts, until};

use crate::{library::Library, sources, strangers};

/// Number of reloads of one host.
const RELOADS: usize = 50;
/// Highest cost of the reloads in anonymous memory, in KiB.
const RELOADS_KIB_MAX: u64 = 8 * 1024;
/// Number of different files that are loaded one after the other, and highest cost of each in KiB. Libraries
/// are never unloaded.
const FILES: usize = 10;
const FILE_KIB_MAX: u64 = 1024;

const HEAD: &str = "[host]\nstatus = \"\"\nplugins_dir = \"plugins\"\n\n[agent]\nruntime = \"echo\"\n\n";

/// Returns a host with these sections and the museum's own adapter in its folder.
fn world(sections: &str) -> World {
    let world = World::with("");
    world.configure(&format!("{HEAD}{sections}"));
    world.install(&artefacts().fixture("foreign"), "foreign.so");
    world
}

fn logged(world: &World, line: &str, times: usize) {
    until(&format!("{line:?} is logged {times} times"), 30, || {
        (world.log().matches(line).count() >= times).then_some(())
    });
}

#[test]
fn a_library_with_an_allocator_of_its_own_gives_and_takes_memory() {
    Isolation::both(|isolation| {
        let mut world = world(&format!(
            "[adapter.foreign]\nname = \"alpha\"\nisolation = \"{}\"\naccess = {{ allowed_users = [\"1\"] }}\n",
            isolation.word()
        ));
        world.launch();
        world.wait_state("foreign", "online");
        // Messages pass in both directions: payloads, answers and errors of each side are freed by the other
        // one.
        world.told(&["send", "foreign:1", "emit from abroad"]);
        logged(&world, "alpha sends emit from abroad", 1);
        until("the answer to what came in", 30, || {
            let log = world.log();
            log.lines()
                .any(|line| line.contains("alpha sends") && line.contains("from abroad") && !line.contains("emit"))
                .then_some(())
        });
        assert_eq!(world.stop(), Some(0));
    });
}

#[test]
fn two_instances_of_one_library_keep_their_logs_apart() {
    let mut world = world(
        "[adapter.one]\nplugin = \"foreign\"\nname = \"alpha\"\nisolation = \"in-process\"\n\n\
         [adapter.two]\nplugin = \"foreign\"\nname = \"beta\"\nisolation = \"in-process\"\n",
    );
    world.launch();
    world.wait_state("one", "online");
    world.wait_state("two", "online");
    for round in 0..10 {
        world.told(&["send", "one:1", &format!("round {round}")]);
        world.told(&["send", "two:1", &format!("round {round}")]);
    }
    logged(&world, "alpha sends round 9", 1);
    logged(&world, "beta sends round 9", 1);
    assert_eq!(world.stop(), Some(0));
    let log = world.log();
    let of = |name: &str| log.lines().filter(|line| line.contains(name)).map(str::to_owned).collect::<Vec<_>>();
    let (alphas, betas) = (of("alpha"), of("beta"));
    assert!(alphas.len() >= 11 && betas.len() >= 11, "{log}");
    assert!(alphas.iter().all(|line| names(line, "one") && !names(line, "two")), "{alphas:#?}");
    assert!(betas.iter().all(|line| names(line, "two") && !names(line, "one")), "{betas:#?}");
}

/// Returns true if this line of the log belongs to this instance.
fn names(line: &str, instance: &str) -> bool {
    line.contains(&format!("instance={instance}")) || line.contains(&format!("instance=\"{instance}\""))
}

#[test]
fn fifty_reloads_stay_within_their_bound() {
    let mut world = world("[adapter.foreign]\nname = \"alpha\"\nisolation = \"in-process\"\n");
    world.launch();
    world.wait_state("foreign", "online");
    let reload = |number: usize| {
        world.told(&["adapter", "reload", "foreign"]);
        logged(&world, "alpha connects", number);
        world.wait_state("foreign", "online");
    };
    // The first reloads fill caches.
    (2..7).for_each(reload);
    let before = anonymous_kib(&world);
    (7..7 + RELOADS).for_each(reload);
    let after = anonymous_kib(&world);
    assert!(after < before + RELOADS_KIB_MAX, "{RELOADS} reloads: {before} KiB before, {after} KiB after");

    let library = Library::read(&artefacts().fixture("foreign"));
    for number in 0..FILES {
        let path = world.plugins().join("foreign.so");
        fs::remove_file(&path).unwrap();
        library.clone().with_another_hash(u8::try_from(number).unwrap()).write(&path);
        world.told(&["adapter", "add", path.to_str().unwrap()]);
        reload(7 + RELOADS + number);
    }
    let last = anonymous_kib(&world);
    let bound = after + FILE_KIB_MAX * u64::try_from(FILES).unwrap();
    assert!(last < bound, "{FILES} other files: {after} KiB before, {last} KiB after");
    assert_eq!(world.stop(), Some(0));
}

/// Returns the anonymous memory of the host, in KiB.
fn anonymous_kib(world: &World) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", world.pid())).expect("the host runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel counts");
    line.trim().trim_end_matches("kB").trim().parse().expect("it is a number")
}

#[test]
fn a_library_exports_its_manifest_and_its_root_and_nothing_else() {
    let built = artefacts();
    let libraries =
        [built.fixture("foreign"), built.fixture("scripted"), built.adapter("echo"), built.adapter("telegram")];
    for path in libraries.iter().chain([strangers::retyped()]) {
        let exports = Library::read(path).exports();
        let expected = ["HERMES_ADAPTER_MANIFEST", "_1as_0lib_1header_0root_bmodule_bloader"];
        assert_eq!(exports, expected, "{}", path.display());
    }
}

#[test]
fn a_stripped_library_keeps_its_manifest() {
    let stripped = Library::read(strangers::retyped());
    assert!(!stripped.has_symbols(), "it was built stripped");
    assert!(Library::read(&artefacts().fixture("foreign")).has_symbols() || !cfg!(debug_assertions));
    assert_eq!(stripped.manifest()["id"], "retyped");
    let world = World::with("");
    let path = strangers::retyped().to_str().unwrap();
    assert!(world.told(&["adapter", "inspect", path, "--json"]).contains("\"retyped\""));
}

#[test]
fn an_adapter_that_aborts_on_a_panic_does_not_compile() {
    let output = hermes_tests::cargo()
        .args(["rustc", "-p", "fixture-foreign", "--lib", "--quiet", "--offline", "--target-dir"])
        .arg(sources::target())
        // The compiler option that `panic = "abort"` in a profile sets.
        .args(["--", "-C", "panic=abort"])
        .current_dir(sources::root())
        .output()
        .unwrap();
    assert!(!output.status.success(), "it compiled");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("remove `panic = \"abort\"` from the profile"), "{said}");
}
