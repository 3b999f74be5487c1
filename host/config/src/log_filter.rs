//! The check of `[host] log`: a level, or levels of single modules.
//!
//! A filter accepts any word as the name of a module. A misspelt level or module would silence the whole log, so every
//! part must be a level or name a level, and at least one part must match the host.

use tracing_subscriber::EnvFilter;

use hermes_core::nearest::nearest;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The crates of the host, and `adapter` for the records of adapters, as log lines name them.
const OURS: [&str; 10] = [
    "hermes_host",
    "hermes_store",
    "hermes_loader",
    "hermes_config",
    "hermes_system",
    "hermes_agent",
    "hermes_core",
    "hermes_protocol",
    "hermes_adapter_net",
    "adapter",
];

/// Crates of the host that have a log target of their own.
const PARTS_OF_THE_HOST: [&str; 4] = ["hermes_store", "hermes_loader", "hermes_config", "hermes_system"];

/// Checks a filter. The error is a sentence with the nearest valid filter.
pub(super) fn check(filter: &str) -> Result<(), String> {
    let no_filter = || {
        format!(
            "{filter:?} is neither a log level nor a filter; write \"info\" or \
                                \"info,hermes_host=debug\""
        )
    };
    let with = |part: &str, better: &str| {
        let parts = filter.split(',').map(|other| if other == part { better } else { other });
        parts.collect::<Vec<_>>().join(",")
    };
    // A part in brackets selects spans and may contain commas.
    if filter.contains(['[', '{']) {
        return EnvFilter::try_new(filter).map(drop).map_err(|_| no_filter());
    }
    let mut reaches_the_host = false;
    for part in filter.split(',') {
        if part.trim() != part || part.is_empty() {
            let tidy: Vec<&str> = filter.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
            let better = if tidy.is_empty() { "info".to_owned() } else { tidy.join(",") };
            return Err(format!("{filter:?} has spaces or empty parts; write {better:?}"));
        }
        let Some((module, level)) = part.rsplit_once('=') else {
            if is_level(part) {
                reaches_the_host = true;
                continue;
            }
            let better = match nearest(&part.to_lowercase(), LEVELS) {
                Some(level) => with(part, level),
                None if filter == part => format!("info,{part}=debug"),
                None => with(part, &format!("{part}=debug")),
            };
            return Err(format!("{part:?} is not a log level; write {better:?}"));
        };
        if !is_level(level) {
            return Err(match nearest(&level.to_lowercase(), LEVELS) {
                Some(near) => format!(
                    "{level:?} is not a log level; write \
                                       {:?}",
                    with(part, &format!("{module}={near}"))
                ),
                None => no_filter(),
            });
        }
        if OURS.iter().any(|ours| within(module, ours) || ours.starts_with(module)) {
            reaches_the_host = true;
        } else if let Some(near) = nearest(module.split("::").next().unwrap_or(module), OURS) {
            let better = with(part, &format!("{near}={level}"));
            return Err(format!("{module:?} is not a module of the host; write {better:?}"));
        }
    }
    match reaches_the_host {
        true => EnvFilter::try_new(filter).map(drop).map_err(|_| no_filter()),
        false => Err(format!("{filter:?} hides every line of the host; write {:?}", format!("info,{filter}"))),
    }
}

/// Returns the filter of `host.log`. A level of `hermes_host` applies to all crates of the host.
///
/// # Errors
///
/// The filter does not parse.
pub fn log_filter(filter: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    let mut wide = filter.to_owned();
    for level in filter.split(',').filter_map(|part| part.trim().strip_prefix("hermes_host=")) {
        for module in PARTS_OF_THE_HOST.iter().filter(|module| !filter.contains(**module)) {
            wide.push_str(&format!(",{module}={level}"));
        }
    }
    EnvFilter::try_new(wide)
}

fn is_level(word: &str) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word)) || matches!(word.as_bytes(), [b'0'..=b'5'])
}

/// Returns `true` if a module is a crate or part of it.
fn within(module: &str, of: &str) -> bool {
    module.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_would_silence_the_log_is_refused_with_the_nearest_valid_one() {
        let cases = [
            ("inof", "\"inof\" is not a log level; write \"info\""),
            ("Debg", "\"Debg\" is not a log level; write \"debug\""),
            ("warning", "\"warning\" is not a log level; write \"warn\""),
            ("verbose", "\"verbose\" is not a log level; write \"info,verbose=debug\""),
            ("hermes_host", "\"hermes_host\" is not a log level; write \"info,hermes_host=debug\""),
            ("inof,hermes_host=debug", "\"inof\" is not a log level; write \"info,hermes_host=debug\""),
            ("info,hermes_host=debgu", "\"debgu\" is not a log level; write \"info,hermes_host=debug\""),
            ("hermes_hots=debug", "\"hermes_hots\" is not a module of the host; write \"hermes_host=debug\""),
            ("info,hermes-host=debug", "\"hermes-host\" is not a module of the host; write \"info,hermes_host=debug\""),
            ("hyper=debug", "\"hyper=debug\" hides every line of the host; write \"info,hyper=debug\""),
            ("info, hyper=warn", "\"info, hyper=warn\" has spaces or empty parts; write \"info,hyper=warn\""),
            (",", "\",\" has spaces or empty parts; write \"info\""),
            ("info,=debug,", "\"info,=debug,\" has spaces or empty parts; write \"info,=debug\""),
        ];
        for (filter, sentence) in cases {
            assert_eq!(check(filter), Err(sentence.to_owned()), "{filter}");
        }
        for filter in [
            "info",
            "WARN",
            "off",
            "3",
            "trace",
            "info,hermes_host=debug",
            "hermes_host=debug",
            "hermes=debug",
            "hermes_host::outbox=trace,warn",
            "warn,hyper=off,h2=error",
            "warn,adapter=info",
            "info,hermes_host[turn{session=7}]=trace",
        ] {
            assert_eq!(check(filter), Ok(()), "{filter}");
        }
    }

    #[test]
    fn a_level_of_the_host_applies_to_its_crates() {
        let filter = log_filter("warn,hermes_host=debug,hermes_store=info").unwrap().to_string();
        for part in ["hermes_loader=debug", "hermes_config=debug", "hermes_store=info"] {
            assert!(filter.contains(part), "{filter}");
        }
        assert_eq!(log_filter("info").unwrap().to_string(), "info");
    }
}
