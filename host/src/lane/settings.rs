//! What was chosen for a session: changed, written, and put into words. The lane is
//! the only owner of it; what it means is with whoever acts on it.

use hermes_core::settings::{Setting, SettingChange};

use super::{Lane, Takeover};
use crate::context::Place;
use crate::store::Change;

const UNREADABLE: &str = "The settings of this conversation cannot be read at the moment. Try it again.";

impl Lane {
    /// Makes a choice; it is written with the order's answer and holds from the next turn on.
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

    /// Says how a setting stands.
    pub(super) async fn show(&mut self, setting: Setting) -> String {
        let Some(settings) = self.memory.settings(&self.host, &self.session).await else {
            return UNREADABLE.to_owned();
        };
        match setting {
            Setting::Model => self.models(settings.model.as_deref()),
            other => format!("{other:?} cannot be chosen in this version."),
        }
    }

    /// Adds what makes a session exist that is not written yet, so that something can be written about it.
    pub(super) async fn be_born(&mut self, place: &Place, changes: &mut Vec<Change>) {
        match &self.birth {
            None => {}
            Some(birth) if matches!(birth.takeover, Some(Takeover { .. })) => {
                // What is written fails visibly when this did.
                let _ = self.bear(place).await;
            }
            Some(birth) => {
                changes.extend([Change::NewSession(birth.session.clone()), Change::BindRoute(birth.route.clone())]);
            }
        }
    }

    /// What follows from a choice, in words.
    fn said(&self, change: &SettingChange) -> String {
        match change {
            SettingChange::Model(Some(model)) => {
                format!("`{model}` answers in this conversation from the next message on.")
            }
            SettingChange::Model(None) => {
                format!("`{}` answers in this conversation again, from the next message on.", self.host.model())
            }
            other => format!("{other:?}: from the next message on."),
        }
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
