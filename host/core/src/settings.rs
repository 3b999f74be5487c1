//! What people chose for one conversation. What they did not choose is as the
//! configuration says.
//!
//! The session's lane owns the one copy in memory; the store keeps it with the
//! session. A change is a [`SettingChange`], applied in one place.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::limits::APPROVED_KINDS_MAX;

/// What happens to a message while a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusyMode {
    /// It ends the running turn and is answered next.
    Interrupt,
    /// It waits.
    Queue,
    /// It is handed to the running turn.
    Steer,
}

/// How much a model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Not at all.
    None,
    /// As little as it can.
    Minimal,
    /// Little.
    Low,
    /// As usual.
    Medium,
    /// Much.
    High,
    /// As much as it can.
    Xhigh,
}

/// How much a chat sees of what the agent does on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressMode {
    /// Nothing.
    Off,
    /// Each tool when it is used for the first time in a turn.
    New,
    /// Each use of a tool.
    All,
    /// Each use of a tool with its arguments.
    Verbose,
    /// Nothing in the chat, everything in the log.
    Log,
}

/// What was chosen for one conversation. The default chooses nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSettings {
    /// What happens to a message while a turn runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<BusyMode>,
    /// The model that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Who the agent is, by a name of `[agent.personalities]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<String>,
    /// How much the model thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Effort>,
    /// Whether its thoughts are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_reasoning: Option<bool>,
    /// What is shown on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressMode>,
    /// Whether an answer ends with a line about itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footer: Option<bool>,
    /// Whether dangerous actions are done without asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yolo: Option<bool>,
    /// Kinds of action that were approved for this conversation.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub approved: BTreeSet<String>,
}

/// One thing that can be chosen, for whoever asks how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Setting {
    /// [`SessionSettings::busy`].
    Busy,
    /// [`SessionSettings::model`].
    Model,
    /// [`SessionSettings::personality`].
    Personality,
    /// [`SessionSettings::reasoning`] and [`SessionSettings::show_reasoning`].
    Reasoning,
    /// [`SessionSettings::progress`].
    Progress,
    /// [`SessionSettings::footer`].
    Footer,
    /// [`SessionSettings::yolo`].
    Yolo,
}

/// What somebody chose; `None` goes back to what the configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingChange {
    /// See [`SessionSettings::busy`].
    Busy(Option<BusyMode>),
    /// See [`SessionSettings::model`].
    Model(Option<String>),
    /// See [`SessionSettings::personality`].
    Personality(Option<String>),
    /// See [`SessionSettings::reasoning`].
    Reasoning(Option<Effort>),
    /// See [`SessionSettings::show_reasoning`].
    ShowReasoning(Option<bool>),
    /// See [`SessionSettings::progress`].
    Progress(Option<ProgressMode>),
    /// See [`SessionSettings::footer`].
    Footer(Option<bool>),
    /// See [`SessionSettings::yolo`].
    Yolo(Option<bool>),
    /// None of [`SessionSettings::approved`] any more.
    ForgetApproved,
    /// One more of [`SessionSettings::approved`]; beyond the bound it is approved this once only.
    Approve(String),
}

impl SessionSettings {
    /// Whether nothing was chosen.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Makes a choice; the only place that knows which field it is.
    pub fn apply(&mut self, change: SettingChange) {
        match change {
            SettingChange::Busy(busy) => self.busy = busy,
            SettingChange::Model(model) => self.model = model,
            SettingChange::Personality(personality) => self.personality = personality,
            SettingChange::Reasoning(effort) => self.reasoning = effort,
            SettingChange::ShowReasoning(show) => self.show_reasoning = show,
            SettingChange::Progress(progress) => self.progress = progress,
            SettingChange::Footer(footer) => self.footer = footer,
            SettingChange::Yolo(yolo) => self.yolo = yolo,
            SettingChange::ForgetApproved => self.approved.clear(),
            SettingChange::Approve(kind) => {
                if self.approved.len() < APPROVED_KINDS_MAX {
                    self.approved.insert(kind);
                }
            }
        }
    }
}

/// Gives an enum its words: one list, read both ways.
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            /// Every word, in order.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Returns the word of this value.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Returns the value of a word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(BusyMode { Interrupt = "interrupt", Queue = "queue", Steer = "steer" });
words!(Effort { None = "none", Minimal = "minimal", Low = "low", Medium = "medium", High = "high", Xhigh = "xhigh" });
words!(ProgressMode { Off = "off", New = "new", All = "all", Verbose = "verbose", Log = "log" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_chosen_is_not_written() {
        assert_eq!(serde_json::to_string(&SessionSettings::default()).unwrap(), "{}");
        let chosen = SessionSettings { reasoning: Some(Effort::Xhigh), footer: Some(false), ..Default::default() };
        let written = serde_json::to_string(&chosen).unwrap();
        assert_eq!(written, r#"{"reasoning":"xhigh","footer":false}"#);
        assert_eq!(serde_json::from_str::<SessionSettings>(&written).unwrap(), chosen);
    }

    #[test]
    fn a_setting_of_a_later_version_does_not_make_the_others_unreadable() {
        let read: SessionSettings = serde_json::from_str(r#"{"model":"m","colour":"blue"}"#).unwrap();
        assert_eq!(read.model.as_deref(), Some("m"));
    }

    #[test]
    fn the_words_of_people_are_those_of_the_store() {
        for word in BusyMode::WORDS {
            let mode = BusyMode::from_word(word).unwrap();
            assert_eq!(serde_json::to_value(mode).unwrap(), *word);
        }
        for word in Effort::WORDS {
            assert_eq!(serde_json::to_value(Effort::from_word(word).unwrap()).unwrap(), *word);
        }
        for word in ProgressMode::WORDS {
            assert_eq!(serde_json::to_value(ProgressMode::from_word(word).unwrap()).unwrap(), *word);
        }
        assert_eq!(BusyMode::from_word("wait"), None);
    }

    #[test]
    fn a_choice_changes_its_own_field_and_none_takes_it_back() {
        let mut settings = SessionSettings::default();
        settings.apply(SettingChange::Model(Some("m".to_owned())));
        settings.apply(SettingChange::Busy(Some(BusyMode::Steer)));
        assert_eq!((settings.model.as_deref(), settings.busy), (Some("m"), Some(BusyMode::Steer)));
        settings.apply(SettingChange::Model(None));
        settings.apply(SettingChange::Busy(None));
        assert!(settings.is_empty());
    }
}
