//! `session.reset`: one rule for all chats, and others by type.
//!
//! A type's own key wins over the plain one, and an adapter's section over `[session]`
//! as a whole: a plain key there is meant for all of its chats, so it takes the place
//! of what `[session]` says about some.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::build::Get;
use super::model::{ResetConfig, ResetMode, ResetRules};
use super::read::{Reader, Values};
use super::tree::Value;

const TYPES: [&str; 4] = ["dm", "group", "channel", "thread"];

/// Keys that a type may say differently.
const TYPED: [&str; 3] = ["mode", "at_hour", "idle_minutes"];

const ZONE: &str = "session.reset.zone";

/// The rules of `[session]`, or of one adapter.
pub fn rules(get: &Get<'_>) -> ResetRules {
    let zone = get.text(ZONE).and_then(|name| TimeZone::get(&name).ok()).unwrap_or_else(TimeZone::system);
    let notify = get.on("session.reset.notify");
    let rule = |kind: &str| {
        let path = |name: &str| {
            let typed = format!("session.reset.{kind}.{name}");
            if get.value(&typed).is_some() { typed } else { format!("session.reset.{name}") }
        };
        ResetConfig {
            mode: mode(&get.word(&path("mode"))),
            at_hour: u8::try_from(get.whole(&path("at_hour"))).unwrap_or_default(),
            idle: Duration::from_secs(get.whole(&path("idle_minutes")).saturating_mul(60)),
            notify,
            zone: zone.clone(),
        }
    };
    ResetRules { dm: rule("dm"), group: rule("group"), channel: rule("channel"), thread: rule("thread") }
}

/// The values of `[session]` under those of an adapter's section, where that says something for all of its chats.
pub fn under(values: &Values, section: &Values) -> Values {
    let mut values = values.clone();
    for name in TYPED {
        if section.get(&format!("session.reset.{name}")).is_some() {
            for kind in TYPES {
                values.forget(&format!("session.reset.{kind}.{name}"));
            }
        }
    }
    values
}

/// Notes a zone that is not known.
pub fn check(reader: &mut Reader<'_>, values: &Values, shown: &str) {
    if let Some(found) = values.get(ZONE)
        && let Value::String(name) = &found.value
        && TimeZone::get(name).is_err()
    {
        let sentence =
            format!("{name:?} is no zone that this machine knows; write one like \"Europe/Berlin\" or \"UTC\"");
        reader.problems.push(found.source.clone(), format!("{shown}reset.zone"), sentence);
    }
}

fn mode(word: &str) -> ResetMode {
    match word {
        "idle" => ResetMode::Idle,
        "daily" => ResetMode::Daily,
        "both" => ResetMode::Both,
        _ => ResetMode::None,
    }
}
