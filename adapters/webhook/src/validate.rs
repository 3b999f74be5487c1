//! The checks of the configuration before the port is bound.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use hermes_adapter_sdk::prelude::*;

use crate::config::{Config, RouteConfig};
use crate::filter::Filter;
use crate::replay::MARKS_MAX;
use crate::route::Route;
use crate::scheme::{self, Encoding, Form, Message, Scheme};
use crate::signature::{WHSEC, standard_keys};

/// The minimum length of a secret, in characters.
const SECRET_CHARS_MIN: usize = 8;

/// The minimum length of the key in a base64 secret, in bytes.
const KEY_BYTES_MIN: usize = 16;

/// The maximum number of secrets per route; a rotation needs two.
const SECRETS_MAX: usize = 10;

/// The maximum number of routes in the section, and in the folder.
pub(crate) const ROUTES_MAX: usize = 500;

/// The maximum length of a route's name, in characters.
const NAME_CHARS_MAX: usize = 64;

/// The maximum length of a template, in characters.
const PROMPT_CHARS_MAX: usize = 16_000;

/// The word for "no signature" in configurations of the Python gateway.
const NO_AUTH: &str = "INSECURE_NO_AUTH";

const RATES: RangeInclusive<u32> = 1..=3_600;

const BODIES: RangeInclusive<usize> = 1_024..=16 * 1024 * 1024;

const AGES_S: RangeInclusive<u64> = 30..=3_600;

const REPLAYS_S: RangeInclusive<u64> = 60..=2_592_000;

/// The section's defaults for routes.
pub(crate) struct RouteDefaults {
    secrets: Vec<String>,
    rate_per_minute: u32,
    body_bytes_max: usize,
    age_s_max: u64,
    replay_s: u64,
}

impl RouteDefaults {
    /// Reads the defaults of `config`.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            secrets: secrets(config.secret.as_ref(), &config.secrets),
            rate_per_minute: config.rate_per_minute,
            body_bytes_max: config.body_bytes_max,
            age_s_max: config.age_s_max,
            replay_s: config.replay_s,
        }
    }

    /// Checks an entry and returns its route.
    ///
    /// # Errors
    ///
    /// One sentence that names the route, the key and the value to write instead.
    pub(crate) fn route(&self, name: &str, route: &RouteConfig) -> Result<Route, String> {
        let subject = || format!("route `{name}`");
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_name) {
            return Err(format!(
                "{} has an invalid name; use up to {NAME_CHARS_MAX} characters of A-Z, a-z, 0-9, - and _",
                subject()
            ));
        }
        let own = secrets(route.secret.as_ref(), &route.secrets);
        let secrets = if own.is_empty() { self.secrets.clone() } else { own };
        check_secrets(&subject(), &secrets)?;
        let (scheme, form) = signature_of(&subject(), route)?;
        // Only these schemes decode such a secret as base64; Stripe's secrets are used literally.
        if matches!(scheme, Scheme::Auto | Scheme::Standard) {
            check_base64_secrets(&subject(), &secrets)?;
        }
        if route.prompt.as_ref().is_some_and(|prompt| prompt.chars().count() > PROMPT_CHARS_MAX) {
            return Err(format!("{} has a prompt of more than {PROMPT_CHARS_MAX} characters; shorten it", subject()));
        }
        let filter = match &route.filters {
            None => None,
            Some(filters) => {
                Some(Filter::read(filters).map_err(|why| format!("{} has invalid filters: {why}", subject()))?)
            }
        };
        let age_s_max = route.age_s_max.unwrap_or(self.age_s_max);
        let replay_s = route.replay_s.unwrap_or(self.replay_s);
        let rate_per_minute = route.rate_per_minute.unwrap_or(self.rate_per_minute);
        let body_bytes_max = route.body_bytes_max.unwrap_or(self.body_bytes_max);
        within(&subject(), "rate_per_minute", rate_per_minute, &RATES)?;
        within(&subject(), "body_bytes_max", body_bytes_max, &BODIES)?;
        within(&subject(), "age_s_max", age_s_max, &AGES_S)?;
        within(&subject(), "replay_s", replay_s, &REPLAYS_S)?;
        if replay_s < 2 * age_s_max {
            return Err(format!(
                "{} forgets calls (replay_s = {replay_s}) while their signatures are still valid (age_s_max = \
                 {age_s_max}); set replay_s to {} or more",
                subject(),
                2 * age_s_max
            ));
        }
        let marks_s = u64::try_from(MARKS_MAX).unwrap_or(u64::MAX) * 60 / u64::from(rate_per_minute);
        if replay_s > marks_s {
            return Err(format!(
                "{} cannot remember {rate_per_minute} calls per minute for {replay_s} s; set replay_s to at most \
                 {marks_s} (and age_s_max to at most half of it), or lower rate_per_minute",
                subject()
            ));
        }
        Ok(Route {
            name: name.to_owned(),
            secrets,
            scheme,
            form,
            events: route.events.clone(),
            filter,
            prompt: route.prompt.clone(),
            deliver: deliver(&subject(), route)?,
            rate_per_minute,
            body_bytes_max,
            age_s_max,
            replay_s,
            enabled: route.enabled,
        })
    }
}

/// The default time header of a route.
const TIMESTAMP_HEADER: &str = "x-webhook-timestamp";

/// Returns the scheme of a route, and the form of its signatures if a service or the route's keys define it.
fn signature_of(subject: &str, route: &RouteConfig) -> Result<(Scheme, Option<Form>), String> {
    let keys = [
        ("signature_header", &route.signature_header),
        ("signature_scheme", &route.signature_scheme),
        ("signature_encoding", &route.signature_encoding),
        ("signature_prefix", &route.signature_prefix),
        ("timestamp_header", &route.timestamp_header),
    ];
    let named = scheme::preset_form(&route.signature);
    let scheme = Scheme::read(&route.signature);
    if named.is_none() && scheme.is_none() {
        return Err(format!(
            "{subject} has an invalid `signature`; use auto, github, gitlab, standard, v2 or v1, or a service: {}",
            scheme::preset_names()
        ));
    }
    let Some((key, _)) = keys.iter().find(|(_, value)| value.is_some()) else {
        return Ok((scheme.unwrap_or(Scheme::Form), named));
    };
    let base = match (named, scheme) {
        (Some(form), _) => form,
        (None, Some(Scheme::Auto)) => Form {
            header: "".into(),
            time_header: "".into(),
            message: Message::Body,
            encoding: Encoding::Any,
            prefix: "sha256=".into(),
            id_header: "",
            event_header: "",
        },
        _ => {
            return Err(format!(
                "{subject} has `{key}` in addition to signature = {:?}, which already defines it; remove one of them",
                route.signature
            ));
        }
    };
    let header = |key: &str, value: &Option<String>, default: &str| {
        let name = value.as_deref().unwrap_or(default).trim().to_ascii_lowercase();
        match axum::http::HeaderName::from_bytes(name.as_bytes()) {
            Ok(_) => Ok(name.into()),
            Err(_) => Err(format!("{subject} has an invalid header name in `{key}`; use a name like \"x-signature\"")),
        }
    };
    let word = |key: &str, words: &str| format!("{subject} has an invalid `{key}`; use {words}");
    let message = match &route.signature_scheme {
        Some(text) => Message::read(text).ok_or_else(|| word("signature_scheme", Message::WORDS))?,
        None => base.message,
    };
    let encoding = match &route.signature_encoding {
        Some(text) => Encoding::read(text).ok_or_else(|| word("signature_encoding", Encoding::WORDS))?,
        None => base.encoding,
    };
    let has_time_header = matches!(message, Message::Slack | Message::Timestamp);
    if !has_time_header && route.timestamp_header.is_some() {
        return Err(format!(
            "{subject} has a `timestamp_header`, but its signature covers no time; set signature_scheme = \"timestamp\""
        ));
    }
    let time_default = if base.time_header.is_empty() { TIMESTAMP_HEADER } else { &base.time_header };
    let form = Form {
        header: header("signature_header", &route.signature_header, &base.header)?,
        time_header: if has_time_header {
            header("timestamp_header", &route.timestamp_header, time_default)?
        } else {
            "".into()
        },
        message,
        encoding,
        prefix: route.signature_prefix.clone().map_or(base.prefix, Into::into),
        ..base
    };
    Ok((Scheme::Form, Some(form)))
}

/// Checks the section and returns its routes.
///
/// # Errors
///
/// One sentence that names the key and the value to write instead.
pub(crate) fn check(config: &Config) -> Result<BTreeMap<String, Route>, String> {
    address(config)?;
    let defaults = RouteDefaults::of(config);
    if !defaults.secrets.is_empty() {
        check_secrets("the section", &defaults.secrets)?;
    }
    if config.routes.is_empty() && config.routes_dir.is_none() {
        return Err(
            "no routes are configured; add [adapter.webhook.routes.NAME] with a secret, or set `routes_dir`".to_owned()
        );
    }
    if config.routes.len() > ROUTES_MAX {
        return Err(format!("{} routes are configured; the limit is {ROUTES_MAX}", config.routes.len()));
    }
    if let Some(path) = config.routes_dir.as_ref().filter(|path| !path.is_absolute()) {
        return Err(format!("`routes_dir` is {}; use an absolute path", path.display()));
    }
    config.routes.iter().map(|(name, route)| Ok((name.clone(), defaults.route(name, route)?))).collect()
}

/// Returns the listen address from `listen` and `port`.
pub(crate) fn address(config: &Config) -> Result<SocketAddr, String> {
    let listen = config.listen.trim().replace("localhost:", "127.0.0.1:");
    let mut address: SocketAddr = listen
        .parse()
        .map_err(|_| format!("`listen` is {:?}; use an address and a port, like \"127.0.0.1:8644\"", config.listen))?;
    if let Some(port) = config.port {
        address.set_port(port);
    }
    Ok(address)
}

/// Returns all secrets that are not empty.
fn secrets(one: Option<&String>, more: &[String]) -> Vec<String> {
    one.into_iter().chain(more).map(|secret| secret.trim().to_owned()).filter(|secret| !secret.is_empty()).collect()
}

fn check_secrets(subject: &str, secrets: &[String]) -> Result<(), String> {
    const MAKE: &str = "generate one with `openssl rand -hex 32`";
    if secrets.is_empty() {
        return Err(format!("{subject} has no secret, so anyone could call it; {MAKE}"));
    }
    if secrets.len() > SECRETS_MAX {
        return Err(format!("{subject} has {} secrets; the limit is {SECRETS_MAX}", secrets.len()));
    }
    if secrets.iter().any(|secret| secret == NO_AUTH) {
        return Err(format!("{subject} disables authentication ({NO_AUTH}), which is not supported; {MAKE}"));
    }
    if secrets.iter().any(|secret| secret.chars().count() < SECRET_CHARS_MIN) {
        return Err(format!("{subject} has a secret with fewer than {SECRET_CHARS_MIN} characters; {MAKE}"));
    }
    Ok(())
}

/// Rejects `whsec_` secrets that are not base64 or too short.
fn check_base64_secrets(subject: &str, secrets: &[String]) -> Result<(), String> {
    let is_weak = |secret: &String| standard_keys(secret).iter().all(|key| key.len() < KEY_BYTES_MIN);
    if secrets.iter().any(|secret| secret.starts_with(WHSEC) && is_weak(secret)) {
        return Err(format!(
            "{subject} has a secret that begins with {WHSEC} but is not base64 of {KEY_BYTES_MIN} bytes or more; copy the whole secret"
        ));
    }
    Ok(())
}

fn within<T: PartialOrd + std::fmt::Display>(
    subject: &str,
    key: &str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<(), String> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(format!("{subject} has {key} = {value}; choose {} to {}", range.start(), range.end())),
    }
}

/// Returns the destination of a route's answers. The payload has no influence on it.
fn deliver(subject: &str, route: &RouteConfig) -> Result<Deliver, String> {
    let to = route.deliver.trim();
    match to {
        "log" | "" | "local" | "origin" if route.deliver_only => {
            Err(format!("{subject} has deliver_only, but delivers only to the log; set a target in `deliver`"))
        }
        "log" | "" | "local" | "origin" => Ok(Deliver::answer_to("local").ending()),
        "github_comment" => Err(format!(
            "{subject} has deliver = \"github_comment\", which is not supported; let the agent comment with a tool, and deliver its answer to a chat or the log"
        )),
        target if target.contains('{') => Err(format!(
            "{subject} has deliver = {target:?}; a payload cannot choose the target of its answer, so use a target without braces"
        )),
        target if route.deliver_only => Ok(Deliver::text_to(target)),
        target => Ok(Deliver::answer_to(target).ending()),
    }
}

#[cfg(test)]
mod tests;
