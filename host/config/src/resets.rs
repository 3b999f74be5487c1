//! `session.reset`: one rule for all chats, and rules by chat type.
//!
//! A key of a chat type overrides the general key, and an adapter's section overrides `[session]` as a whole: a general
//! key in it applies to all chats of the adapter, so it also replaces the keys by type of `[session]`.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::build::Get;
use super::model::{ResetConfig, ResetMode, ResetRules};
use super::read::{Reader, Values};
use super::tree::Value;

const TYPES: [&str; 4] = ["dm", "group", "channel", "thread"];

/// Keys that can be set by chat type.
const TYPED: [&str; 3] = ["mode", "at_hour", "idle_minutes"];

const ZONE: &str = "session.reset.zone";

/// Returns the rules of `[session]`, or of one adapter.
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

/// Returns the values of `[session]` without the keys by type that an adapter's section replaces.
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

/// Records an unknown time zone.
pub fn check(reader: &mut Reader<'_>, values: &Values, shown: &str) {
    if let Some(found) = values.get(ZONE)
        && let Value::String(name) = &found.value
        && TimeZone::get(name).is_err()
    {
        let sentence =
            format!("{name:?} is not a known time zone; use an IANA name such as \"Europe/Berlin\" or \"UTC\"");
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
