//! The settings that people chose for one conversation. A setting without a choice follows the configuration.
//!
//! The session's task owns the only copy in memory; the store keeps it with the session.
//! [`SessionSettings::apply`] is the only place that applies a [`SettingChange`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::limits::APPROVED_KINDS_MAX;

/// Handling of a message that arrives while a turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusyMode {
    /// Interrupts the running turn and is answered next.
    Interrupt,
    /// Waits for its turn.
    Queue,
    /// Is passed to the running turn.
    Steer,
}

/// Reasoning effort of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// No reasoning.
    None,
    /// The least that the model supports.
    Minimal,
    /// Low effort.
    Low,
    /// Medium effort.
    Medium,
    /// High effort.
    High,
    /// The most that the model supports.
    Xhigh,
}

/// Progress display in a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressMode {
    /// No display.
    Off,
    /// Each tool, but no repeated line for consecutive uses of the same tool.
    New,
    /// Each use of a tool.
    All,
    /// Each use of a tool with its full arguments.
    Verbose,
    /// No display in the chat; details in the log.
    Log,
}

/// The settings chosen for one conversation. The default is no choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSettings {
    /// Handling of messages while a turn runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy: Option<BusyMode>,
    /// Model that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Personality of the agent, by a name in `[agent.personalities]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<String>,
    /// Reasoning effort of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Effort>,
    /// Shows the reasoning of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub show_reasoning: Option<bool>,
    /// Progress display.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressMode>,
    /// Adds a footer to each answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footer: Option<bool>,
    /// Runs dangerous actions without approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yolo: Option<bool>,
    /// Kinds of action approved for this conversation.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub approved: BTreeSet<String>,
}

/// Id of a setting.
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

/// A change of one setting; `None` restores the value of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingChange {
    /// Sets [`SessionSettings::busy`].
    Busy(Option<BusyMode>),
    /// Sets [`SessionSettings::model`].
    Model(Option<String>),
    /// Sets [`SessionSettings::personality`].
    Personality(Option<String>),
    /// Sets [`SessionSettings::reasoning`].
    Reasoning(Option<Effort>),
    /// Sets [`SessionSettings::show_reasoning`].
    ShowReasoning(Option<bool>),
    /// Sets [`SessionSettings::progress`].
    Progress(Option<ProgressMode>),
    /// Sets [`SessionSettings::footer`].
    Footer(Option<bool>),
    /// Sets [`SessionSettings::yolo`].
    Yolo(Option<bool>),
    /// Clears [`SessionSettings::approved`].
    ForgetApproved,
    /// Adds a kind to [`SessionSettings::approved`]. If the set is full, the approval counts only once.
    Approve(String),
}

impl SessionSettings {
    /// Returns true if nothing was chosen.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies a change.
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

/// Maps the values of an enum to words and back, from one list.
macro_rules! words {
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            /// All words, in order.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Returns the word of this value.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Parses a word.
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
