//! `tool check`: the verdict of the shell policy, for operators and for tests.

use std::io::BufRead;

use hermes_agent::shell_policy::{self, Rules};
use serde_json::json;

use super::args::ToolCommand;
use super::{Failure, ask};

/// The assumed working folder.
const FOLDER: &str = "/home/user/project";

/// Prints the verdicts on commands.
pub(super) fn tool(command: &ToolCommand) -> Result<(), Failure> {
    let ToolCommand::Check { command, json } = command;
    if command != "-" {
        return ask::print(&verdict(command, *json));
    }
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::failed(format!("standard input cannot be read: {error}")))?;
        let command: String = serde_json::from_str(&line)
            .map_err(|error| Failure::failed(format!("a line is not a JSON string: {error}")))?;
        ask::print(&verdict(&command, *json))?;
    }
    Ok(())
}

/// Returns the verdict as one line.
fn verdict(command: &str, json: bool) -> String {
    let home = "/home/user".to_owned();
    let rules = Rules { host_home: format!("{home}/.hermes-host"), user_home: Some(home), ..Rules::default() };
    let why = shell_policy::judge(command, FOLDER, FOLDER, &rules).map(|danger| danger.why);
    match (json, why) {
        (true, why) => format!("{}\n", json!({"asks": why.is_some(), "why": why})),
        (false, Some(why)) => format!("asks: {why}\n"),
        (false, None) => "runs without approval\n".to_owned(),
    }
}
