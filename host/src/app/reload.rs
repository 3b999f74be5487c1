//! Reloading the configuration, and the outcome of the starts that it causes.

use std::time::Duration;

use futures_util::future::join_all;

use super::App;
use super::control::{Answer, refusal};
use crate::engine::config_snapshot::Live;
use crate::engine::messages::{Control, HostEvent};
use crate::engine::operator::{ControlReply, ErrorKind};
use hermes_config::Problems;
use hermes_core::text::span;
use hermes_loader::{AdapterStatus, Begun, Outcome};

/// The longest wait of `reload` and `adapter reload` for the first outcome of their starts.
const OUTCOME: Duration = Duration::from_secs(10);

/// The relation of the configuration file to the running configuration.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The problems of single adapters in the running configuration.
    problems: Problems,
    /// Time of the first refused reload since the last success, in milliseconds since the Unix epoch.
    refused_ms: Option<i64>,
}

impl Standing {
    /// Creates the state after a successful load, with the problems of single adapters.
    pub(crate) fn with(problems: Problems) -> Self {
        Self { problems, refused_ms: None }
    }

    /// Returns the warning about a refused reload for later readers.
    pub(crate) fn warning(&self, now_ms: i64) -> Option<String> {
        let ago = span(now_ms.saturating_sub(self.refused_ms?));
        Some(format!(
            "outdated configuration: the reload {ago} ago failed; fix the problems that `hermes-host config check` \
             reports, then run `hermes-host reload`"
        ))
    }

    /// Returns the reason of an adapter that its section keeps from running, in the words of `config check`, with the
    /// final step.
    pub(crate) fn reason(&self, status: &AdapterStatus) -> Option<String> {
        if status.state != "failed" {
            return None;
        }
        match (status.code, &status.reason) {
            (Some("config_refused"), Some(_)) => {
                let own: Vec<String> = self.of(&status.name).map(ToString::to_string).collect();
                (!own.is_empty()).then(|| format!("{}; then run `hermes-host reload`", own.join("; ")))
            }
            (Some("create_failed"), Some(reason)) => Some(format!("{reason}; then run `hermes-host reload`")),
            _ => None,
        }
    }

    fn of(&self, instance: &str) -> impl Iterator<Item = &hermes_config::Problem> {
        of(&self.problems, instance)
    }
}

/// Returns the problems of one section.
fn of<'a>(problems: &'a Problems, instance: &str) -> impl Iterator<Item = &'a hermes_config::Problem> {
    let section = format!("adapter.{instance}");
    problems.0.iter().filter(move |problem| {
        problem.key.strip_prefix(&section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The result of a reload.
pub(crate) struct Reloaded {
    /// Changed keys that are read only at the start.
    later: Vec<String>,
    /// The problems of single adapters.
    problems: Problems,
    /// The starts that it caused.
    begun: Vec<Begun>,
}

impl App {
    /// Reads the configuration again and applies it, or changes nothing.
    pub(crate) async fn reload(&self) -> Result<Reloaded, Problems> {
        let config = self.reread(hermes_config::load(self.options.sources.clone()))?;
        let planned = self.reread(self.plans.plan(config, &self.options.log_mask).await)?;
        let later = planned.config.changed_for_the_next_start(&self.started_with);
        self.host.set_live(Live::new(planned.config));
        let begun = self.adapters.apply(planned.plans);
        *self.standing() = Standing::with(planned.problems.clone());
        self.host.tell(HostEvent::control(Control::Reloaded)).await;
        tracing::info!("configuration reloaded");
        if !later.is_empty() {
            tracing::warn!("these keys take effect at the next start: {}", later.join(", "));
        }
        Ok(Reloaded { later, problems: planned.problems, begun })
    }

    /// Records a refused reload.
    fn reread<T>(&self, read: Result<T, Problems>) -> Result<T, Problems> {
        if read.is_err() {
            self.standing().refused_ms.get_or_insert(self.host.now_ms());
        }
        read
    }

    /// Does the same as [`App::reload`] for the operator, and reports the outcomes.
    pub(super) async fn reload_and_tell(&self) -> Answer {
        let reloaded = match self.reload().await {
            Ok(reloaded) => reloaded,
            Err(problems) => return Err(refusal(ErrorKind::Config, problems.to_string())),
        };
        let waiting = reloaded.begun.iter().map(|begun| async { (begun.instance(), begun.outcome(OUTCOME).await) });
        let outcomes = join_all(waiting).await;
        let mut rests = reloaded.rests(&outcomes);
        rests.extend(self.host.takes_nothing().map(|why| format!("For now {why}.")));
        let rests: String = rests.iter().map(|rest| format!(" {rest}")).collect();
        match reloaded.amiss(&outcomes) {
            lines if lines.is_empty() => Ok(ControlReply::done(format!("Configuration reloaded.{rests}"))),
            lines => {
                let words = format!("the configuration was reloaded with problems:\n{}", lines.join("\n"));
                let rests = if rests.is_empty() { rests } else { format!("\n{}", rests.trim_start()) };
                Err(refusal(ErrorKind::Failed, format!("{words}{rests}")))
            }
        }
    }

    /// Starts an instance again from the current file, and reports the outcome.
    pub(super) async fn reload_adapter(&self, instance: &str) -> Answer {
        let Some(begun) = self.adapters.replace(instance) else {
            let words = format!("{instance} is disabled; `hermes-host adapter enable {instance}` starts it.");
            return Ok(ControlReply::done(words));
        };
        Ok(ControlReply::done(match begun.outcome(OUTCOME).await {
            Outcome::Online => format!("{instance} is running from the current file."),
            Outcome::NoLink(why) => {
                format!(
                    "{instance} was started from the current file and is not connected yet: {why}; it keeps retrying."
                )
            }
            Outcome::Pending => {
                format!("{instance} is starting from the current file; `hermes-host status` shows the result.")
            }
            Outcome::Kept(why) => return Err(refusal(ErrorKind::Failed, format!("not replaced: {why}"))),
            Outcome::Failed(why) => {
                return Err(refusal(ErrorKind::Failed, format!("{instance} is not running: {why}")));
            }
        }))
    }
}

impl Reloaded {
    /// Returns a line for each failure. If the file explains it, the line contains the place and the key.
    fn amiss(&self, outcomes: &[(&str, Outcome)]) -> Vec<String> {
        let mut lines: Vec<String> = self.problems.0.iter().map(|problem| format!("  {problem}")).collect();
        for (instance, outcome) in outcomes {
            let is_explained = of(&self.problems, instance).next().is_some();
            match outcome {
                Outcome::Kept(_) if is_explained => {
                    lines.push(format!("  {instance} keeps running with its former section"))
                }
                Outcome::Failed(why) | Outcome::Kept(why) if !is_explained => {
                    lines.push(format!("  {instance}: {why}"))
                }
                _ => {}
            }
        }
        lines
    }

    /// Returns a sentence for each remaining effect.
    fn rests(&self, outcomes: &[(&str, Outcome)]) -> Vec<String> {
        let mut rests = Vec::new();
        for (instance, outcome) in outcomes {
            match outcome {
                Outcome::NoLink(why) => {
                    rests.push(format!("{instance} is not connected yet: {why}; it keeps retrying."))
                }
                Outcome::Pending => {
                    rests.push(format!("{instance} is still starting; `hermes-host status` shows the result."));
                }
                Outcome::Online | Outcome::Kept(_) | Outcome::Failed(_) => {}
            }
        }
        if !self.later.is_empty() {
            let later = self.later.join(", ");
            rests.push(format!("These keys take effect at the next start: {later}; run `hermes-host restart`."));
        }
        rests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_config::Source;

    fn problem(key: &str) -> Problems {
        Problems::one(Source::Default, key, "is wrong")
    }

    #[test]
    fn a_failure_that_the_file_explains_is_told_once_and_any_other_too() {
        let reloaded = Reloaded { later: Vec::new(), problems: problem("adapter.one.token"), begun: Vec::new() };
        let failed = || Outcome::Failed("no".to_owned());
        let amiss = reloaded.amiss(&[("one", failed()), ("on", failed()), ("two", Outcome::Online)]);
        assert_eq!(amiss, ["  default: adapter.one.token: is wrong", "  on: no"]);
        let amiss = reloaded.amiss(&[("one", Outcome::Kept("it is wrong".to_owned()))]);
        assert_eq!(
            amiss[1], "  one keeps running with its former section",
            "it still serves what it served: {amiss:?}"
        );
    }

    #[test]
    fn what_takes_its_time_and_what_waits_for_a_restart_is_told() {
        let reloaded =
            Reloaded { later: vec!["host.status".to_owned()], problems: Problems::default(), begun: Vec::new() };
        let rests = reloaded.rests(&[("one", Outcome::NoLink("it is down".to_owned())), ("two", Outcome::Pending)]);
        assert_eq!(rests[0], "one is not connected yet: it is down; it keeps retrying.");
        assert!(rests[1].starts_with("two is still starting"), "{rests:?}");
        assert!(rests[2].contains("host.status; run `hermes-host restart`"), "{rests:?}");
        assert!(reloaded.amiss(&[("one", Outcome::NoLink("it is down".to_owned()))]).is_empty());
    }

    #[test]
    fn the_reason_of_a_failed_adapter_says_what_the_check_says_and_the_last_step() {
        let standing = Standing::with(problem("adapter.one.token"));
        let one = |code: &'static str, name: &str| AdapterStatus {
            name: name.to_owned(),
            plugin: "p".to_owned(),
            version: String::new(),
            isolation: "",
            confined: None,
            state: "failed".to_owned(),
            since: 0,
            reason: Some("no".to_owned()),
            code: Some(code),
            next_try: None,
            last_proven: None,
            held: 0,
            guarantee: String::new(),
            announced: Vec::new(),
            restarts: 0,
            upstream_ignored: false,
        };
        let told = standing.reason(&one("config_refused", "one")).unwrap();
        assert_eq!(told, "default: adapter.one.token: is wrong; then run `hermes-host reload`");
        assert_eq!(standing.reason(&one("config_refused", "on")), None, "of that the file says nothing");
        assert_eq!(standing.reason(&one("create_failed", "on")).unwrap(), "no; then run `hermes-host reload`");
        assert_eq!(standing.reason(&one("changed_hash", "one")), None);
        let goes_on = AdapterStatus { state: "online".to_owned(), ..one("config_refused", "one") };
        assert_eq!(standing.reason(&goes_on), None, "what is told of it is that it was not replaced");
    }

    #[test]
    fn a_reload_that_was_refused_is_remembered() {
        let standing = Standing { refused_ms: Some(0), ..Standing::default() };
        assert!(
            standing.warning(300_000).unwrap().contains("the reload 5 min ago failed"),
            "{:?}",
            standing.warning(300_000)
        );
        assert_eq!(Standing::default().warning(300_000), None);
    }
}
