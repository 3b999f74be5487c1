//! The environment of a command: a few harmless variables of the host, the variables that the operator names,
//! and those of the turn. No other variables of the host are passed on, so that no secret can be unless the
//! operator names it.

use std::collections::BTreeMap;

use hermes_core::context::{CONTROL_TOKEN, TurnContext};

/// Variables of the host that a command gets.
const ALLOWED: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "TMPDIR", "XDG_RUNTIME_DIR"];

/// Prefix of further permitted variables.
const ALLOWED_PREFIX: &str = "LC_";

/// Default search path for programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variable that marks the processes of one call.
pub const MARK: &str = "HERMES_TOOL_PROCESS";

/// Selects the permitted variables from an environment.
pub fn allowed<'e>(all: impl IntoIterator<Item = (&'e String, &'e String)>) -> BTreeMap<String, String> {
    let is_allowed = |name: &str| ALLOWED.contains(&name) || name.starts_with(ALLOWED_PREFIX);
    let picked = all.into_iter().filter(|(name, _)| is_allowed(name));
    picked.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns true if the operator may pass a variable to commands by its name. The host itself sets the variables
/// of a turn.
pub fn may_pass(name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = name.starts_with(|c: char| !c.is_ascii_digit()) && name.chars().all(is_word);
    let is_of_a_turn = name.starts_with("HERMES_SESSION_") || name.starts_with("HERMES_CRON_");
    is_name && !is_of_a_turn && name != MARK && name != CONTROL_TOKEN
}

/// Returns the complete environment of a command of this turn.
pub fn of(context: &TurnContext, base: &BTreeMap<String, String>, mark: &str) -> BTreeMap<String, String> {
    let mut environment = base.clone();
    environment.entry("PATH".to_owned()).or_insert_with(|| PATH.to_owned());
    let child = context.child_environment();
    environment.extend(child.set.into_iter().map(|(name, value)| (name.to_owned(), value)));
    for name in child.remove {
        environment.remove(name);
    }
    environment.insert(MARK.to_owned(), mark.to_owned());
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_sets_for_a_turn_cannot_be_passed_from_outside() {
        for name in ["GH_TOKEN", "_x1", "HERMES_HOST_HOME"] {
            assert!(may_pass(name), "{name}");
        }
        for name in ["", "1A", "A B", "A=B", "*", "GH_*", MARK, CONTROL_TOKEN, "HERMES_SESSION_USER_ID"] {
            assert!(!may_pass(name), "{name}");
        }
    }

    #[test]
    fn a_command_gets_its_turn_and_nothing_secret_of_the_host() {
        let host: BTreeMap<String, String> = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "sk-1"),
            ("LC_ALL", "C"),
            ("HERMES_SESSION_USER_ID", "old"),
            ("A_TOKEN", "t"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let context = TurnContext { user_id: "7".to_owned(), ..TurnContext::default() };
        let environment = of(&context, &allowed(&host), "m1");
        assert_eq!(environment["HERMES_SESSION_USER_ID"], "7");
        assert_eq!((environment["PATH"].as_str(), environment["LC_ALL"].as_str()), ("/bin", "C"));
        assert!(
            !environment
                .keys()
                .any(|name| name.contains("KEY") && name != "HERMES_SESSION_KEY" || name.contains("TOKEN"))
        );
        assert_eq!(of(&context, &BTreeMap::new(), "m1")["PATH"], PATH);
    }
}
