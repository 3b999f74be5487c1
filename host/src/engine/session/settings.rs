//! The settings of a session: changed, written, and described. Only the lane changes them; each setting takes effect in
//! the module that uses it.

use hermes_agent::Message;
use hermes_core::delivery::strip_control;
use hermes_core::settings::{BusyMode, Effort, ProgressMode, SessionSettings, Setting, SettingChange};

use super::{Lane, Takeover};
use crate::engine::context::Place;
use crate::engine::session::display::Manner;
use hermes_core::text::counted;
use hermes_store::Change;

const UNREADABLE: &str = "The settings of this conversation could not be read. Please try again.";

impl Lane {
    /// Changes a setting; it is written with the order's reply and applies from the next turn on.
    pub(super) async fn set(&mut self, place: &Place, change: SettingChange, changes: &mut Vec<Change>) -> String {
        let Some(mut settings) = self.memory.settings(&self.host, &self.session).await else {
            return UNREADABLE.to_owned();
        };
        let words = self.said(&change);
        settings.apply(change);
        self.be_born(place, changes).await;
        changes.push(Change::Settings { session: self.session.clone(), settings: settings.clone() });
        self.memory.choose(settings);
        words
    }

    /// Switches to the next mode of tool progress.
    pub(super) async fn next_progress(&mut self, place: &Place, changes: &mut Vec<Change>) -> String {
        let Some(settings) = self.memory.settings(&self.host, &self.session).await else {
            return UNREADABLE.to_owned();
        };
        let next = match Manner::of(&self.host.live(), &place.instance, &settings).progress {
            ProgressMode::Off => ProgressMode::New,
            ProgressMode::New => ProgressMode::All,
            ProgressMode::All => ProgressMode::Verbose,
            ProgressMode::Verbose => ProgressMode::Log,
            ProgressMode::Log => ProgressMode::Off,
        };
        self.set(place, SettingChange::Progress(Some(next)), changes).await
    }

    /// Toggles whether the agent asks before it acts.
    pub(super) async fn toggle_yolo(&mut self, place: &Place, changes: &mut Vec<Change>) -> String {
        let Some(settings) = self.memory.settings(&self.host, &self.session).await else {
            return UNREADABLE.to_owned();
        };
        let on = !settings.yolo.unwrap_or_default();
        self.set(place, SettingChange::Yolo(on.then_some(true)), changes).await
    }

    /// Describes a setting.
    pub(super) async fn show(&mut self, place: &Place, setting: Setting) -> String {
        let Some(settings) = self.memory.settings(&self.host, &self.session).await else {
            return UNREADABLE.to_owned();
        };
        match setting {
            Setting::Busy => busy(settings.busy.unwrap_or(self.host.live().session_of(&place.instance).busy)),
            Setting::Model => self.models(settings.model.as_deref()),
            Setting::Personality => self.personalities(settings.personality.as_deref()),
            Setting::Reasoning => self.reasoning(&settings),
            Setting::Progress => {
                progress(Manner::of(&self.host.live(), &place.instance, &settings).progress).to_owned()
            }
            Setting::Footer => {
                let on = Manner::of(&self.host.live(), &place.instance, &settings).footer;
                let mut words = footer(on).to_owned();
                words[..1].make_ascii_uppercase();
                words
            }
            Setting::Yolo => yolo(settings.yolo.unwrap_or_default()).to_owned(),
            other => format!("{other:?} is not available in this version."),
        }
    }

    /// Adds the changes that store a new session, so that other changes can refer to it.
    pub(super) async fn be_born(&mut self, place: &Place, changes: &mut Vec<Change>) {
        match &self.birth {
            None => {}
            Some(birth) if matches!(birth.takeover, Some(Takeover { .. })) => {
                // A failure makes the later write fail visibly.
                let _ = self.bear(place).await;
            }
            Some(birth) => {
                changes.push(Change::NewSession(birth.session.clone()));
                changes.extend(birth.route.clone().map(Change::BindBorn));
            }
        }
    }

    /// Describes the effect of a change.
    fn said(&self, change: &SettingChange) -> String {
        match change {
            SettingChange::Model(Some(model)) => {
                format!("Model set to `{model}` for this conversation. Applies from your next message.")
            }
            SettingChange::Progress(Some(mode)) => format!("From your next message on: {}", progress(*mode)),
            SettingChange::Footer(Some(on)) => format!("From your next message on: {}", footer(*on)),
            SettingChange::Progress(None) | SettingChange::Footer(None) => {
                "Reset to the configured value. Applies from your next message.".to_owned()
            }
            SettingChange::Model(None) => {
                format!("Model reset to `{}` for this conversation. Applies from your next message.", self.host.model())
            }
            SettingChange::Personality(Some(name)) => {
                format!("Personality set to `{name}` for this conversation. Applies from your next message.")
            }
            SettingChange::Personality(None) => "Personality cleared. Applies from your next message.".to_owned(),
            SettingChange::Reasoning(Some(effort)) => {
                format!("Reasoning effort set to `{effort}`, if the model supports it. Applies from your next message.")
            }
            SettingChange::Reasoning(None) => "Reasoning effort reset to the configured value.".to_owned(),
            SettingChange::ShowReasoning(Some(true)) => "Reasoning is shown after each answer here.".to_owned(),
            SettingChange::ShowReasoning(_) => "Reasoning is not shown here.".to_owned(),
            SettingChange::Busy(Some(mode)) => busy(*mode),
            SettingChange::Busy(None) => "Busy mode reset to the configured value.".to_owned(),
            SettingChange::Yolo(on) => yolo(on.unwrap_or_default()).to_owned(),
            SettingChange::ForgetApproved => "Lasting approvals cleared; the actions need approval again.".to_owned(),
            other => format!("{other:?}: applies from your next message."),
        }
    }

    /// Lists the settings except the model, for `/status`.
    pub(super) fn chosen(&self, settings: &SessionSettings) -> Vec<String> {
        let on = |on: bool| if on { "on" } else { "off" };
        let said = [
            ("Personality", settings.personality.clone()),
            ("Effort", settings.reasoning.map(|effort| effort.to_string())),
            ("Reasoning", settings.show_reasoning.map(|show| if show { "shown" } else { "hidden" }.to_owned())),
            ("Busy mode", settings.busy.map(|busy| busy.to_string())),
            ("Progress", settings.progress.map(|progress| progress.to_string())),
            ("Footer", settings.footer.map(|footer| on(footer).to_owned())),
            (
                "Approved here",
                Some(settings.approved.len())
                    .filter(|kinds| *kinds > 0)
                    .map(|kinds| format!("{} of action", counted(kinds as u64, "kind"))),
            ),
            ("Yolo", settings.yolo.map(|yolo| on(yolo).to_owned())),
        ];
        said.into_iter().filter_map(|(name, value)| Some(format!("- {name}: {}", value?))).collect()
    }

    /// Appends the model's reasoning to the answer, if it is shown. It comes after the answer, because the text shown
    /// during the turn must stay the beginning.
    pub(super) async fn with_thoughts(&mut self, answer: String, messages: &[Message]) -> String {
        let live = self.host.live_now();
        let settings = self.memory.settings(&self.host, &self.session).await.unwrap_or_default();
        if !settings.show_reasoning.unwrap_or(live.config.agent.show_reasoning) {
            return answer;
        }
        let thoughts: Vec<&str> = messages.iter().filter_map(|message| message.reasoning.as_deref()).collect();
        let thoughts = live.masker.mask(strip_control(&thoughts.join("\n"))).into_owned();
        if thoughts.trim().is_empty() { answer } else { format!("{answer}\n\n{}", quoted(&thoughts)) }
    }

    fn personalities(&self, chosen: Option<&str>) -> String {
        let live = self.host.live();
        let names = &live.config.agent.personalities;
        if names.is_empty() {
            return "No personalities are configured; the operator adds them to `[agent.personalities]`.".to_owned();
        }
        let mark = |name: &str| if chosen == Some(name) { " (this conversation)" } else { "" };
        let mut lines: Vec<String> = names.keys().map(|name| format!("- `{name}`{}", mark(name))).collect();
        lines.push("\n`/personality NAME` selects one; `/personality none` clears it.".to_owned());
        lines.join("\n")
    }

    fn reasoning(&self, settings: &SessionSettings) -> String {
        let live = self.host.live();
        let agent = &live.config.agent;
        let effort = settings.reasoning.or(agent.reasoning).map_or("model default", Effort::as_str);
        let shown = if settings.show_reasoning.unwrap_or(agent.show_reasoning) { "shown" } else { "hidden" };
        format!(
            "- Effort: {effort}\n- Reasoning: {shown}\n\n`/reasoning {}` sets the effort, `/reasoning show` or `hide` sets whether you see the reasoning, and `/reasoning reset` resets the effort.",
            Effort::WORDS.join(" | ")
        )
    }

    fn models(&self, chosen: Option<&str>) -> String {
        let usual = self.host.model();
        let mut names = self.host.runtime.models();
        names.extend(chosen.map(str::to_owned).into_iter().chain([usual.clone()]));
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        let mut lines: Vec<String> = Vec::new();
        for name in &names {
            let mark = match (chosen == Some(name), *name == usual) {
                (true, _) => " (this conversation)",
                (false, true) if chosen.is_none() => " (default, used here)",
                (false, true) => " (default)",
                (false, false) => "",
            };
            lines.push(format!("- `{name}`{mark}"));
        }
        lines.push("\n`/model NAME` selects one for this conversation; `/model reset` resets it.".to_owned());
        lines.join("\n")
    }
}

/// Describes the effect of a message during a turn.
fn busy(mode: BusyMode) -> String {
    let what = match mode {
        BusyMode::Interrupt => "a new message stops the current turn and is answered next",
        BusyMode::Queue => "a new message waits until the current turn has ended",
        BusyMode::Steer => "a new message is sent into the current turn, or waits if the turn can no longer take it",
    };
    format!("Busy mode `{mode}`: {what}.")
}

/// Lines of reasoning that are shown.
const THOUGHT_LINES_MAX: usize = 20;
/// Characters of reasoning that are shown.
const THOUGHT_CHARS_MAX: usize = 2_000;

/// Quotes the reasoning, bounded.
fn quoted(thoughts: &str) -> String {
    let start: String = thoughts.trim().chars().take(THOUGHT_CHARS_MAX).collect();
    let mut lines: Vec<String> = start.lines().take(THOUGHT_LINES_MAX).map(|line| format!("> {line}")).collect();
    let shown: usize = lines.iter().map(|line| line.chars().count() - 1).sum();
    if shown < thoughts.trim().chars().count() {
        lines.push("> …".to_owned());
    }
    lines.join("\n")
}

fn progress(mode: ProgressMode) -> &'static str {
    match mode {
        ProgressMode::Off => "tool calls are not shown (off).",
        ProgressMode::New => "a tool call is shown only when the tool changes (new).",
        ProgressMode::All => "every tool call is shown (all).",
        ProgressMode::Verbose => "every tool call is shown with its arguments (verbose).",
        ProgressMode::Log => "tool calls are not shown; they are written to logs/tool_calls.log (log).",
    }
}

fn yolo(on: bool) -> &'static str {
    match on {
        true => {
            "Approvals are off: the agent acts in this conversation without asking. `/yolo off` turns them on again."
        }
        false => "Approvals are on: the agent asks in this conversation before an action that needs approval.",
    }
}

fn footer(on: bool) -> &'static str {
    match on {
        true => "answers end with model, tokens and time.",
        false => "answers have no footer.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_quoted_and_bounded() {
        assert_eq!(quoted("one\ntwo\n"), "> one\n> two");
        assert_eq!(quoted(&"x\n".repeat(50)).lines().count(), THOUGHT_LINES_MAX + 1);
        assert!(quoted(&"ä".repeat(5_000)).chars().count() < THOUGHT_CHARS_MAX + 10);
    }
}
