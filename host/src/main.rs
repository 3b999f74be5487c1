//! The program: reads the arguments and the environment of the process once, and hands them to the command line.

use std::process::ExitCode;

use hermes_host::surface::cli;
use hermes_host::surface::cli::Given;

fn main() -> ExitCode {
    // The host uses no names and values that are not valid Unicode.
    let env =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    cli::main(Given {
        args: std::env::args_os().collect(),
        env: env.collect(),
        cwd: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        program: std::env::current_exe().ok(),
    })
}
