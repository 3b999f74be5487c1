//! Signature schemes: those of known services, and those that a route defines by its keys.
//!
//! Each is an HMAC with SHA-256 over the body, alone or after a time. The presets and their documentation:
//! `gitea` <https://docs.gitea.com/usage/webhooks>, `stripe` <https://docs.stripe.com/webhooks/signature>,
//! `slack` <https://api.slack.com/authentication/verifying-requests-from-slack>,
//! `linear` <https://linear.app/developers/webhooks>,
//! `sentry` <https://docs.sentry.io/organization/integrations/integration-platform/webhooks/>,
//! `bitbucket` <https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/>,
//! `jira` <https://developer.atlassian.com/cloud/jira/platform/webhooks/>,
//! `shopify` <https://shopify.dev/docs/apps/build/webhooks/subscribe/https>.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

/// The signature scheme of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Chosen by the headers of each call.
    Auto,
    /// `X-Hub-Signature-256`.
    GitHub,
    /// `X-Gitlab-Token`.
    GitLab,
    /// `webhook-signature` or `svix-signature`.
    Standard,
    /// `X-Webhook-Signature-V2`.
    V2,
    /// `X-Webhook-Signature`.
    V1,
    /// The form of a service, or of the route's keys.
    Form,
}

impl Scheme {
    /// Returns the scheme of a configuration word.
    pub(crate) fn read(word: &str) -> Option<Self> {
        Some(match word {
            "auto" => Self::Auto,
            "github" => Self::GitHub,
            "gitlab" => Self::GitLab,
            "standard" | "svix" => Self::Standard,
            "v2" => Self::V2,
            "v1" => Self::V1,
            _ => return None,
        })
    }
}

/// The signed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The body.
    Body,
    /// `TIME.BODY`; the time is in the signature's own header: `t=TIME,v1=SIGNATURE`.
    Stripe,
    /// `v0:TIME:BODY`; the time has a header of its own.
    Slack,
    /// `TIME.BODY`; the time has a header of its own.
    Timestamp,
}

impl Message {
    /// The valid words of `signature_scheme`.
    pub(crate) const WORDS: &'static str = "body, timestamp, stripe or slack";

    /// Parses a word of `signature_scheme`.
    pub(crate) fn read(word: &str) -> Option<Self> {
        Some(match word {
            "body" => Self::Body,
            "timestamp" => Self::Timestamp,
            "stripe" => Self::Stripe,
            "slack" => Self::Slack,
            _ => return None,
        })
    }

    /// Returns the signed bytes.
    pub(crate) fn of(self, time: &str, body: &[u8]) -> Vec<u8> {
        match self {
            Self::Body => body.to_vec(),
            Self::Stripe | Self::Timestamp => [time.as_bytes(), b".", body].concat(),
            Self::Slack => [b"v0:", time.as_bytes(), b":", body].concat(),
        }
    }
}

/// The encoding of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Hexadecimal, or else base64.
    Any,
    /// Hexadecimal.
    Hex,
    /// Base64.
    Base64,
}

impl Encoding {
    /// The valid words of `signature_encoding`.
    pub(crate) const WORDS: &'static str = "hex or base64";

    /// Parses a word of `signature_encoding`.
    pub(crate) fn read(word: &str) -> Option<Self> {
        Some(match word {
            "hex" => Self::Hex,
            "base64" => Self::Base64,
            _ => return None,
        })
    }

    /// Decodes a signature; `None` if it is not a SHA-256 tag.
    pub(crate) fn decode(self, text: &str) -> Option<Vec<u8>> {
        let hex = || from_hex(text);
        let base64 = || STANDARD.decode(text).ok().filter(|tag| tag.len() == 32);
        match self {
            Self::Any => hex().or_else(base64),
            Self::Hex => hex(),
            Self::Base64 => base64(),
        }
    }
}

/// The form of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// The header of the signature, in lower case.
    pub(crate) header: Cow<'static, str>,
    /// The header of the time, if the time is outside the signature's header.
    pub(crate) time_header: Cow<'static, str>,
    /// The signed message.
    pub(crate) message: Message,
    /// The encoding of the signature.
    pub(crate) encoding: Encoding,
    /// The text before the signature; a signature without it is accepted, too.
    pub(crate) prefix: Cow<'static, str>,
    /// The header of the call's id, if the service sends one.
    pub(crate) id_header: &'static str,
    /// The header of the event, if the service sends one.
    pub(crate) event_header: &'static str,
}

/// A service with its names.
struct Preset {
    names: &'static [&'static str],
    form: Form,
}

const fn preset(
    names: &'static [&'static str],
    header: &'static str,
    message: Message,
    encoding: Encoding,
    prefix: &'static str,
    (id_header, event_header): (&'static str, &'static str),
) -> Preset {
    let time_header = match message {
        Message::Slack => "x-slack-request-timestamp",
        _ => "",
    };
    Preset {
        names,
        form: Form {
            header: Cow::Borrowed(header),
            time_header: Cow::Borrowed(time_header),
            message,
            encoding,
            prefix: Cow::Borrowed(prefix),
            id_header,
            event_header,
        },
    }
}

const SHA256: &str = "sha256=";

/// All presets, in the order in which `auto` looks for their headers.
static PRESETS: [Preset; 11] = {
    use Encoding::{Base64, Hex};
    use Message::{Body, Slack, Stripe};
    [
        preset(&["stripe"], "stripe-signature", Stripe, Hex, "", ("", "")),
        preset(&["slack"], "x-slack-signature", Slack, Hex, "v0=", ("", "")),
        preset(&["gitea", "forgejo"], "x-gitea-signature", Body, Hex, "", ("x-gitea-delivery", "x-gitea-event")),
        preset(&["gogs"], "x-gogs-signature", Body, Hex, "", ("x-gogs-delivery", "x-gogs-event")),
        preset(&["linear"], "linear-signature", Body, Hex, "", ("linear-delivery", "linear-event")),
        preset(&["sentry"], "sentry-hook-signature", Body, Hex, "", ("request-id", "sentry-hook-resource")),
        preset(&["bitbucket"], "x-hub-signature", Body, Hex, SHA256, ("x-request-uuid", "x-event-key")),
        preset(&["shopify"], "x-shopify-hmac-sha256", Body, Base64, "", ("x-shopify-webhook-id", "x-shopify-topic")),
        preset(&["jira"], "x-hub-signature", Body, Hex, SHA256, ("x-atlassian-webhook-identifier", "")),
        preset(
            &["woocommerce"],
            "x-wc-webhook-signature",
            Body,
            Base64,
            "",
            ("x-wc-webhook-delivery-id", "x-wc-webhook-topic"),
        ),
        preset(&["typeform"], "typeform-signature", Body, Base64, SHA256, ("", "")),
    ]
};

/// Returns the names of the presets, for an error message.
pub(crate) fn preset_names() -> String {
    PRESETS.iter().flat_map(|preset| preset.names).copied().collect::<Vec<_>>().join(", ")
}

/// Returns the form of a service.
pub(crate) fn preset_form(name: &str) -> Option<Form> {
    PRESETS.iter().find(|preset| preset.names.contains(&name)).map(|preset| preset.form.clone())
}

/// Returns the form of the first known header of a call.
pub(crate) fn form_of_headers(headers: &HeaderMap) -> Option<&'static Form> {
    PRESETS.iter().map(|preset| &preset.form).find(|form| headers.contains_key(&*form.header))
}

/// Returns the event of a call from a header of a known service.
pub(crate) fn event_of_headers(headers: &HeaderMap) -> Option<String> {
    let known = PRESETS.iter().map(|preset| preset.form.event_header).filter(|name| !name.is_empty());
    known.filter_map(|name| headers.get(name)?.to_str().ok()).map(str::to_owned).next()
}

pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
