//! The environment of a command: a few harmless variables of the host and the variables of its turn. No other
//! variables of the host are passed on, so that no secret can be.

use std::collections::BTreeMap;

use hermes_core::context::TurnContext;

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
