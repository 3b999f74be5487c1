//! Short forms of the command line: `hermes-host INSTANCE link [rotate]` for `adapter link INSTANCE [--rotate]`, and the
//! same with `key`.

use std::borrow::Cow;
use std::ffi::OsString;

use clap::CommandFactory;

use super::Cli;

/// Options of the program that take a value.
const WITH_VALUE: [&str; 2] = ["--config", "--home"];

/// Returns the arguments with a short form spelled out.
pub fn spelled_out(arguments: &[OsString]) -> Cow<'_, [OsString]> {
    match link(arguments) {
        Some(spelled) => Cow::Owned(spelled),
        None => Cow::Borrowed(arguments),
    }
}

fn link(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let mut at = 1;
    while let Some(option) = arguments.get(at)?.to_str().filter(|word| word.starts_with('-')) {
        at += if WITH_VALUE.contains(&option) { 2 } else { 1 };
    }
    let name = arguments[at].to_str()?;
    if !matches!(arguments.get(at + 1)?.to_str()?, "link" | "key") || Cli::command().find_subcommand(name).is_some() {
        return None;
    }
    let mut spelled = arguments[..at].to_vec();
    spelled.extend(["adapter", "link", name].map(OsString::from));
    let rest = arguments[at + 2..].iter();
    spelled.extend(rest.map(|word| if word == "rotate" { "--rotate".into() } else { word.clone() }));
    Some(spelled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_spelled_out_and_commands_stay() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let spelled = |line: &str| spelled_out(&words(line)).into_owned();
        for (short, long) in [
            ("h page link", "h adapter link page"),
            ("h api key rotate", "h adapter link api --rotate"),
            ("h --home /x page link --rotate", "h --home /x adapter link page --rotate"),
            ("h page link --home /x", "h adapter link page --home /x"),
        ] {
            assert_eq!(spelled(short), words(long));
        }
        for line in ["h", "h status", "h page", "h --home", "h config link", "h adapter link x", "h session show link"]
        {
            assert_eq!(spelled(line), words(line));
        }
    }
}
