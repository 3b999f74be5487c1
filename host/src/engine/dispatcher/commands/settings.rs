//! Commands about the state and the settings of a conversation.

use hermes_core::access::Tier;
use hermes_core::limits::MODEL_NAME_BYTES_MAX;
use hermes_core::settings::{Effort, ProgressMode, Setting, SettingChange};

use super::{Asked, Deed};
use crate::engine::dispatcher::{Dispatcher, MODEL_FLAG};
use crate::engine::session::Act;
use hermes_store::Change;

/// The arguments that restore the value of the configuration.
pub(super) const RESET: &[&str] = &["reset", "default"];

impl Dispatcher {
    /// `/status`: shows the state of this conversation.
    pub(super) fn status(&mut self) -> Deed {
        Act::Describe.into()
    }

    /// `/model [name | reset] [--global]`: sets the model here, or everywhere.
    pub(super) fn model(&mut self, asked: &Asked<'_>) -> Deed {
        let (mut name, mut global) = (None, false);
        for word in asked.args.split_whitespace() {
            match word {
                "--global" => global = true,
                "--session" => global = false,
                word if word.starts_with("--") || name.is_some() => {
                    return Deed::say(
                        "Use `/model`, `/model NAME` or `/model reset`; add `--global` to apply it to everyone.",
                    );
                }
                word => name = Some(word),
            }
        }
        let staff = asked.arrived.event.tier() >= Tier::Admin;
        let model = match name {
            None => return Act::Show(Setting::Model).into(),
            Some(word) if RESET.contains(&word) => None,
            Some(word) => match self.known_model(word, staff) {
                Ok(model) => Some(model),
                Err(words) => return Deed::say(words),
            },
        };
        match global {
            false => Act::Set(SettingChange::Model(model)).into(),
            true if staff => self.model_for_everybody(model),
            true => Deed::say("Only admins of this host can change the model for everyone."),
        }
    }

    /// `/personality [name | none]`: sets the personality of the agent here.
    pub(super) fn personality(&mut self, asked: &Asked<'_>) -> Deed {
        match asked.args {
            "" => Act::Show(Setting::Personality).into(),
            "none" | "default" | "neutral" | "reset" => Act::Set(SettingChange::Personality(None)).into(),
            name => {
                let live = self.host.live();
                let known = live.config.agent.personalities.keys().find(|known| known.eq_ignore_ascii_case(name));
                match known {
                    Some(name) => Act::Set(SettingChange::Personality(Some(name.clone()))).into(),
                    None => Deed::say("There is no personality with this name. `/personality` lists them."),
                }
            }
        }
    }

    /// `/reasoning [effort | show | hide | reset]`: sets the reasoning effort of the model, and its visibility.
    pub(super) fn reasoning(&mut self, asked: &Asked<'_>) -> Deed {
        let word = asked.args.to_ascii_lowercase();
        let change = match word.as_str() {
            "" => return Act::Show(Setting::Reasoning).into(),
            "show" => SettingChange::ShowReasoning(Some(true)),
            "hide" => SettingChange::ShowReasoning(Some(false)),
            "reset" | "default" => SettingChange::Reasoning(None),
            "off" => SettingChange::Reasoning(Some(Effort::None)),
            word => match Effort::from_word(word) {
                Some(effort) => SettingChange::Reasoning(Some(effort)),
                None => {
                    return Deed::say(format!("Use `/reasoning {} | show | hide | reset`.", Effort::WORDS.join(" | ")));
                }
            },
        };
        Act::Set(change).into()
    }

    /// `/verbose [mode]`: sets the progress display of tools; without a mode, the next one.
    pub(super) fn verbose(&mut self, asked: &Asked<'_>) -> Deed {
        match asked.args.trim() {
            "" => Act::NextProgress.into(),
            "status" => Act::Show(Setting::Progress).into(),
            word if RESET.contains(&word) => Act::Set(SettingChange::Progress(None)).into(),
            word => match ProgressMode::from_word(word) {
                Some(mode) => Act::Set(SettingChange::Progress(Some(mode))).into(),
                None => Deed::say(format!("Use `/verbose` with one of {}.", ProgressMode::WORDS.join(", "))),
            },
        }
    }

    /// `/footer [on | off | status]`: sets whether an answer ends with a line about itself.
    pub(super) fn footer(&mut self, asked: &Asked<'_>) -> Deed {
        match asked.args.trim() {
            "on" => Act::Set(SettingChange::Footer(Some(true))).into(),
            "off" => Act::Set(SettingChange::Footer(Some(false))).into(),
            word if RESET.contains(&word) => Act::Set(SettingChange::Footer(None)).into(),
            "" | "status" => Act::Show(Setting::Footer).into(),
            _ => Deed::say("Use `/footer on`, `/footer off` or `/footer status`."),
        }
    }

    fn model_for_everybody(&mut self, model: Option<String>) -> Deed {
        self.host.choose_model(model.clone());
        let words = format!(
            "`{}` is now the default model. It applies from the next message, except where a conversation has its own model.",
            self.host.model()
        );
        let changes = vec![Change::Flag { key: MODEL_FLAG.to_owned(), value: model }];
        Deed { changes, ..Deed::say(words) }
    }

    /// Finds the model of this name: one of the list, or for admins any valid name.
    fn known_model(&self, word: &str, staff: bool) -> Result<String, String> {
        let models = self.host.runtime.models();
        if let Some(model) = models.iter().find(|model| model.eq_ignore_ascii_case(word)) {
            return Ok(model.clone());
        }
        let visible = word.chars().all(|c| c.is_ascii_graphic() && c != '`');
        if word.len() > MODEL_NAME_BYTES_MAX || !visible {
            return Err("That is not a valid model name. `/model` lists the models.".to_owned());
        }
        if staff {
            return Ok(word.to_owned());
        }
        let names: Vec<String> = models.iter().map(|model| format!("`{model}`")).collect();
        Err(format!("There is no model `{word}` here. Choose one of {}.", names.join(", ")))
    }
}
