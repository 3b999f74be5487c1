//! `adapter certify`: the conformance lists on a built library, and their combined verdict.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use hermes_conformance::{CASES, Certified, NO_STAGE, Outcome, STAGED_CASES, Sample, Verdict, Watch};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::signal::unix::{SignalKind, signal};

use super::ask::{print, print_json};
use super::scratch::Scratch;
use super::{Context, FAILED, Failure, adapter};
use hermes_core::nearest::nearest;
use hermes_core::text::one_line;
use hermes_loader::Isolation;

/// Deadline of one isolation. A platform that does not answer can take a minute and a half of it.
const TRIAL_WAIT: Duration = Duration::from_secs(600);

/// The largest report that is read, in bytes.
const REPORT_BYTES_MAX: u64 = 4 << 20;

/// The longest line of background output, in characters.
const ASIDE_CHARS_MAX: usize = 300;

/// The longest observation, in characters.
const SEEN_CHARS_MAX: usize = 600;

/// The arguments of a certification.
pub(super) struct Trial {
    pub file: PathBuf,
    pub sample: Option<PathBuf>,
    /// `None`: both isolations.
    pub isolation: Option<String>,
    /// Ids of cases; empty: all.
    pub cases: Vec<String>,
    pub json: bool,
}

/// The result of one case.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    id: String,
    sentence: String,
    /// `passed`, `failed`, `skipped` or `crashed`.
    verdict: String,
    /// The observation, or the reason why the case was skipped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    detail: String,
    /// Output of the platform simulator and the adapter's log during a failed case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    aside: Vec<String>,
}

/// The cases in one isolation.
#[derive(Debug, Serialize)]
struct Tried {
    isolation: &'static str,
    cases: Vec<Line>,
}

/// The report on all isolations.
#[derive(Debug, Serialize)]
struct Report {
    verdict: String,
    isolations: Vec<Tried>,
    /// Declared capabilities that no case tests.
    not_asked: Vec<&'static str>,
}

/// Runs a certification in child processes, or with `here` one isolation in this process.
pub(super) async fn certify(context: &Context, trial: Trial, here: bool) -> Result<(), Failure> {
    let isolations: Vec<Isolation> = [Isolation::InProcess, Isolation::Process]
        .into_iter()
        .filter(|isolation| trial.isolation.as_deref().is_none_or(|wanted| wanted == isolation.as_str()))
        .collect();
    if let (true, [isolation]) = (here, &isolations[..]) {
        return inside(context, &trial, *isolation).await;
    }
    // Wrong arguments are reported once, before any case runs.
    sample(context, &trial)?;
    known(&trial.cases)?;
    let judged = adapter::settings(context)?;
    if let Some(why) = hermes_loader::check_refusal(&context.sources.cwd.join(&trial.file), &judged).await {
        return Err(Failure::failed(why));
    }
    let tried = tokio::select! {
        tried = in_children(context, &trial, isolations) => tried?,
        // Dropping the other future removes its folder and its child.
        () = ended() => return Err(Failure::failed("the test run was ended before its last case")),
    };
    let manifest = hermes_loader::inspect(&context.sources.cwd.join(&trial.file));
    let manifest = manifest.map_err(|error| Failure::failed(error.to_string()))?;
    let not_asked = hermes_conformance::not_asked(&manifest.capabilities);
    let report = Report { verdict: said(&tried, &trial.cases), isolations: tried, not_asked };
    if trial.json {
        print_json(&report)?
    } else {
        print(&shown(&report))?
    }
    match verdict(&report.isolations) {
        Certified::No => Err(Failure::silent(FAILED)),
        _ => Ok(()),
    }
}

/// Refuses unknown case ids.
fn known(cases: &[String]) -> Result<(), Failure> {
    let ids = || CASES.iter().chain(STAGED_CASES).map(|case| case.id);
    let Some(wrong) = cases.iter().find(|wanted| ids().all(|id| id != wanted.as_str())) else { return Ok(()) };
    let hint = match nearest(wrong, ids()) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("the cases are {}", ids().collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::usage(format!("no case has the id {wrong:?}; {hint}")))
}

/// Returns the verdict in words. A selection of cases certifies nothing.
fn said(tried: &[Tried], cases: &[String]) -> String {
    match verdict(tried) {
        Certified::No => Certified::No.to_string(),
        _ if !cases.is_empty() => "none of the selected cases failed".to_owned(),
        whole => whole.to_string(),
    }
}

/// Waits for a signal that ends this process.
async fn ended() {
    let Ok(mut term) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

async fn in_children(context: &Context, trial: &Trial, isolations: Vec<Isolation>) -> Result<Vec<Tried>, Failure> {
    let cannot = |error| Failure::failed(format!("the temporary folder cannot be created ({error})"));
    let scratch = Scratch::make("certify").map_err(cannot)?;
    let mut tried = Vec::new();
    for isolation in isolations {
        let cases = in_child(context, trial, isolation, &scratch).await?;
        tried.push(Tried { isolation: isolation.as_str(), cases });
    }
    Ok(tried)
}

fn sample(context: &Context, trial: &Trial) -> Result<Sample, Failure> {
    match &trial.sample {
        Some(path) => Sample::read(&context.sources.cwd.join(path)).map_err(Failure::failed),
        None => Ok(Sample {
            config: json!({}),
            stage: Vec::new(),
            folder: context.sources.cwd.clone(),
            unix_sockets: false,
        }),
    }
}

/// Runs the cases in this process, which the library may end. Each result is written to standard output as a line of
/// JSON.
async fn inside(context: &Context, trial: &Trial, isolation: Isolation) -> Result<(), Failure> {
    let sample = sample(context, trial)?;
    let mut settings = adapter::settings(context)?;
    // The state of the test is kept outside of the home.
    let home = std::env::temp_dir().join(format!("hermes-certify-{}", std::process::id()));
    let made = std::fs::DirBuilder::new().mode(0o700).create(&home);
    made.map_err(|error| Failure::failed(format!("{} cannot be created ({error})", home.display())))?;
    settings.home.clone_from(&home);
    let tell = |outcome: &Outcome| {
        let line = serde_json::to_string(&line(outcome)).expect("a line is always JSON");
        // The parent process is gone, and ends this process.
        let _ = writeln!(std::io::stdout(), "{line}");
    };
    let mut watch = Watch::of(trial.cases.clone()).telling(tell);
    let file = context.sources.cwd.join(&trial.file);
    let outcomes = hermes_loader::certify(&file, &sample, isolation, settings, &mut watch).await;
    // A folder that stays does no harm.
    let _ = std::fs::remove_dir_all(&home);
    outcomes.map(drop).map_err(Failure::failed)
}

/// Runs the cases in a child of this program. A crash is reported as a case of its own.
async fn in_child(
    context: &Context,
    trial: &Trial,
    isolation: Isolation,
    scratch: &Scratch,
) -> Result<Vec<Line>, Failure> {
    let mut command = tokio::process::Command::new("/proc/self/exe");
    command.args(words(context, trial, isolation)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The child's temporary files are removed with this folder.
    command.env("TMPDIR", &scratch.path).kill_on_drop(true);
    let mut child =
        command.spawn().map_err(|error| Failure::failed(format!("the test process cannot be started ({error})")))?;
    let (mut lines, mut complained) = (Vec::new(), Vec::new());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ended = tokio::time::timeout(TRIAL_WAIT, async {
        let read_out = async {
            let Some(out) = out else { return };
            let mut told = BufReader::new(out.take(REPORT_BYTES_MAX)).split(b'\n');
            while let Ok(Some(told)) = told.next_segment().await {
                // Other output comes from the library.
                let Ok(line) = serde_json::from_slice::<Line>(&told) else { continue };
                if !trial.json && !is_unstaged(&line) {
                    // A failed write is ignored: the report repeats the line at the end.
                    let _ = writeln!(std::io::stderr(), "{}  {:7}  {}", isolation.as_str(), line.verdict, line.id);
                }
                lines.push(line);
            }
        };
        let read_err = async {
            if let Some(err) = err {
                err.take(REPORT_BYTES_MAX).read_to_end(&mut complained).await.ok();
            }
        };
        tokio::join!(read_out, read_err);
        child.wait().await
    });
    let ended = ended.await;
    if matches!(&ended, Ok(Ok(status)) if status.success()) {
        return Ok(lines);
    }
    let complained = String::from_utf8_lossy(&complained);
    let complained = complained.trim().trim_start_matches("error: ");
    let how = match ended {
        // The child has reported the reason.
        Ok(Ok(status)) if status.code() == Some(FAILED.into()) => return Err(Failure::failed(complained)),
        Ok(Ok(status)) => status.to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it did not end within {} s", TRIAL_WAIT.as_secs()),
    };
    let detail = one_line(&format!("{how}: {complained}"), SEEN_CHARS_MAX);
    let sentence = "the library does not end the process that runs it".to_owned();
    lines.push(Line { id: "survives".to_owned(), sentence, verdict: "crashed".to_owned(), detail, aside: Vec::new() });
    Ok(lines)
}

/// Returns the arguments of the child.
fn words(context: &Context, trial: &Trial, isolation: Isolation) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    for (name, path) in [("--config", &context.sources.config), ("--home", &context.sources.home)] {
        if let Some(path) = path {
            words.extend([name.into(), path.into()]);
        }
    }
    words.extend(["adapter".into(), "certify".into(), trial.file.clone().into(), "--here".into()]);
    words.extend(["--isolation".into(), isolation.as_str().into(), "--json".into()]);
    for case in &trial.cases {
        words.extend(["--case".into(), case.into()]);
    }
    if let Some(sample) = &trial.sample {
        words.extend(["--sample".into(), sample.into()]);
    }
    words
}

fn line(outcome: &Outcome) -> Line {
    let (verdict, detail) = match &outcome.verdict {
        Verdict::Passed => ("passed", String::new()),
        Verdict::Failed(seen) => ("failed", one_line(seen, SEEN_CHARS_MAX)),
        Verdict::Skipped(why) => ("skipped", one_line(why, SEEN_CHARS_MAX)),
    };
    Line {
        id: outcome.case.id.to_owned(),
        sentence: outcome.case.sentence.to_owned(),
        verdict: verdict.to_owned(),
        detail,
        aside: outcome.aside.iter().map(|said| one_line(said, ASIDE_CHARS_MAX)).collect(),
    }
}

/// Returns the combined verdict of all isolations.
fn verdict(tried: &[Tried]) -> Certified {
    let mut cases = tried.iter().flat_map(|tried| &tried.cases);
    if cases.clone().any(|case| matches!(case.verdict.as_str(), "failed" | "crashed")) {
        Certified::No
    } else if cases.any(is_unstaged) {
        Certified::ContractOnly
    } else {
        Certified::Whole
    }
}

fn is_unstaged(case: &Line) -> bool {
    case.verdict == "skipped" && case.detail == NO_STAGE
}

fn shown(report: &Report) -> String {
    let mut text = String::new();
    for Tried { isolation, cases } in &report.isolations {
        text.push_str(&format!("{isolation}\n"));
        let unstaged = cases.iter().filter(|case| is_unstaged(case)).count();
        if unstaged > 0 {
            text.push_str(&format!("  skipped  {unstaged} cases that need a platform: {NO_STAGE}\n"));
        }
        for case in cases.iter().filter(|case| !is_unstaged(case)) {
            let detail = if case.detail.is_empty() { String::new() } else { format!(" ({})", case.detail) };
            text.push_str(&format!("  {:7}  {}: {}{detail}\n", case.verdict, case.id, case.sentence));
            text.extend(case.aside.iter().map(|said| format!("           {said}\n")));
        }
    }
    text.push_str(&format!("{}\n", report.verdict));
    if !report.not_asked.is_empty() {
        text.push_str(&format!("not tested: {}\n", report.not_asked.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(verdict: &str, detail: &str) -> Vec<Tried> {
        let case = |verdict: &str, detail: &str| Line {
            id: "connects".to_owned(),
            sentence: "it connects".to_owned(),
            verdict: verdict.to_owned(),
            detail: detail.to_owned(),
            aside: detail.lines().filter(|_| verdict == "failed").map(|_| "stage: gone".to_owned()).collect(),
        };
        vec![Tried { isolation: "process", cases: vec![case("passed", ""), case(verdict, detail)] }]
    }

    #[test]
    fn one_case_that_failed_or_crashed_is_enough() {
        assert_eq!(verdict(&tried("passed", "")), Certified::Whole);
        assert_eq!(verdict(&tried("skipped", "the adapter does not open threads")), Certified::Whole);
        assert_eq!(verdict(&tried("skipped", NO_STAGE)), Certified::ContractOnly);
        assert_eq!(verdict(&tried("failed", "nothing")), Certified::No);
        assert_eq!(verdict(&tried("crashed", "signal: 11")), Certified::No);
    }

    #[test]
    fn whoever_asks_for_some_cases_is_certified_by_nothing() {
        let some = ["connects".to_owned()];
        assert_eq!(said(&tried("passed", ""), &[]), "certified");
        assert_eq!(said(&tried("passed", ""), &some), "none of the selected cases failed");
        assert_eq!(said(&tried("failed", ""), &some), "not certified");
        known(&some).unwrap();
        assert!(known(&["conects".to_owned()]).is_err());
    }

    #[test]
    fn the_report_is_read_from_the_top_to_its_last_line() {
        let isolations = tried("failed", "no event");
        let report = Report { verdict: "not certified".to_owned(), isolations, not_asked: vec!["edit", "typing"] };
        assert_eq!(
            shown(&report),
            "process\n  passed   connects: it connects\n  failed   connects: it connects (no event)\n           stage: gone\nnot certified\nnot tested: edit, typing\n"
        );
    }
}
