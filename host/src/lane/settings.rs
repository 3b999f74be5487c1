//! The settings of a session: changed, written, and described. Only the lane changes them; each setting takes effect in
//! the module that uses it.

use hermes_agent::Message;
use hermes_core::delivery::strip_control;
use hermes_core::settings::{BusyMode, Effort, ProgressMode, SessionSettings, Setting, SettingChange};

use super::manner::Manner;
use super::{Lane, Takeover};
use crate::context::Place;
use crate::status::human::counted;
use crate::store::Change;

const UNREADABLE: &str = "The settings of this conversation cannot be read at the moment. Try it again.";

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
            other => format!("{other:?} cannot be chosen in this version."),
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
                format!("`{model}` answers in this conversation from the next message on.")
            }
            SettingChange::Progress(Some(mode)) => format!("From the next message on: {}", progress(*mode)),
            SettingChange::Footer(Some(on)) => format!("From the next message on: {}", footer(*on)),
            SettingChange::Progress(None) | SettingChange::Footer(None) => {
                "As the configuration says, from the next message on.".to_owned()
            }
            SettingChange::Model(None) => {
                format!("`{}` answers in this conversation again, from the next message on.", self.host.model())
            }
            SettingChange::Personality(Some(name)) => {
                format!("I am `{name}` in this conversation from the next message on.")
            }
            SettingChange::Personality(None) => "I am myself again from the next message on.".to_owned(),
            SettingChange::Reasoning(Some(effort)) => {
                format!("Effort `{effort}` from the next message on, where the model can think.")
            }
            SettingChange::Reasoning(None) => "The effort is as configured again.".to_owned(),
            SettingChange::ShowReasoning(Some(true)) => {
                "What the model thinks is shown behind its answers here.".to_owned()
            }
            SettingChange::ShowReasoning(_) => "What the model thinks is not shown here.".to_owned(),
            SettingChange::Busy(Some(mode)) => busy(*mode),
            SettingChange::Busy(None) => {
                "What a message does while the agent works is as the configuration says again.".to_owned()
            }
            SettingChange::Yolo(on) => yolo(on.unwrap_or_default()).to_owned(),
            SettingChange::ForgetApproved => "What was approved for longer is asked for again.".to_owned(),
            other => format!("{other:?}: from the next message on."),
        }
    }

    /// Lists the settings except the model, for `/status`.
    pub(super) fn chosen(&self, settings: &SessionSettings) -> Vec<String> {
        let on = |on: bool| if on { "on" } else { "off" };
        let said = [
            ("Personality", settings.personality.clone()),
            ("Effort", settings.reasoning.map(|effort| effort.to_string())),
            ("Thoughts", settings.show_reasoning.map(|show| if show { "shown" } else { "hidden" }.to_owned())),
            ("While busy", settings.busy.map(|busy| busy.to_string())),
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
            return "No personality is configured; the operator writes them into `[agent.personalities]`.".to_owned();
        }
        let mark = |name: &str| if chosen == Some(name) { " (this conversation)" } else { "" };
        let mut lines: Vec<String> = names.keys().map(|name| format!("- `{name}`{}", mark(name))).collect();
        lines.push("\n`/personality NAME` chooses one, `/personality none` none.".to_owned());
        lines.join("\n")
    }

    fn reasoning(&self, settings: &SessionSettings) -> String {
        let live = self.host.live();
        let agent = &live.config.agent;
        let effort = settings.reasoning.or(agent.reasoning).map_or("as the model does", Effort::as_str);
        let shown = if settings.show_reasoning.unwrap_or(agent.show_reasoning) { "shown" } else { "hidden" };
        format!(
            "- Effort: {effort}\n- Thoughts: {shown}\n\n`/reasoning {}` chooses the effort, `/reasoning show` and `hide` whether you see it, `/reasoning reset` goes back.",
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
                (false, true) if chosen.is_none() => " (answers here)",
                (false, true) => " (elsewhere)",
                (false, false) => "",
            };
            lines.push(format!("- `{name}`{mark}"));
        }
        lines.push("\n`/model NAME` chooses one for this conversation, `/model reset` goes back.".to_owned());
        lines.join("\n")
    }
}

/// Describes the effect of a message during a turn.
fn busy(mode: BusyMode) -> String {
    let what = match mode {
        BusyMode::Interrupt => "ends what the agent is doing and is answered next",
        BusyMode::Queue => "waits for its turn",
        BusyMode::Steer => "reaches what the agent is doing, or waits where that is too late",
    };
    format!("A message that comes while the agent works {what} (`{mode}`).")
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
        ProgressMode::Off => "nothing is shown of tools on the way (off).",
        ProgressMode::New => "a tool is shown when it is another one than before (new).",
        ProgressMode::All => "each use of a tool is shown (all).",
        ProgressMode::Verbose => "each use of a tool is shown with all it is used with (verbose).",
        ProgressMode::Log => "nothing is shown of tools on the way; they are written to logs/tool_calls.log (log).",
    }
}

fn yolo(on: bool) -> &'static str {
    match on {
        true => "The agent acts in this conversation without asking. `/yolo off` lets it ask again.",
        false => "The agent asks in this conversation before it does what needs approval.",
    }
}

fn footer(on: bool) -> &'static str {
    match on {
        true => "answers end with their model, tokens and time.",
        false => "answers end without a line about themselves.",
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
