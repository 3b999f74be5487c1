//! The configuration: its keys, their validation, and the options of outgoing messages.

use std::net::SocketAddr;
use std::path::PathBuf;

use hermes_adapter_net::client::base_url;
use hermes_adapter_sdk::prelude::*;

/// The maximum length of the secret, in bytes. <https://core.telegram.org/bots/api#setwebhook>
const SECRET_BYTES_MAX: usize = 256;

/// Keys of `[adapter.telegram]`.
#[derive(AdapterConfig)]
pub struct Config {
    /// The bot's token, from @BotFather.
    pub(crate) token: String,
    /// The address before `/bot<token>`; another address is for a Bot API server of your own.
    #[serde(default = "default_base_url")]
    pub(crate) base_url: String,
    /// The address before `/bot<token>` for downloads of files; by default `base_url` and `/file`.
    #[serde(default)]
    pub(crate) file_url: Option<String>,
    /// A PEM file with a certificate to trust in addition to the system's.
    #[serde(default)]
    pub(crate) ca_file: Option<PathBuf>,
    /// The time that one poll waits for updates, in seconds (1 to 50).
    #[serde(default = "default_poll_timeout_s")]
    #[schemars(range(min = 1, max = 50))]
    pub(crate) poll_timeout_s: u64,
    /// The address to which the server pushes updates instead of being polled: an https address that leads to `listen`.
    #[serde(default)]
    pub(crate) webhook_url: Option<String>,
    /// The secret by which the server proves its identity; required for a webhook.
    #[serde(default)]
    pub(crate) webhook_secret: Option<String>,
    /// The address and port on which a webhook's updates arrive.
    #[serde(default = "default_listen")]
    pub(crate) listen: String,
    /// The maximum size of an incoming file, in bytes; the public server provides at most 20 MiB.
    #[serde(default = "default_media_bytes_max")]
    pub(crate) media_bytes_max: u64,
    /// The maximum size of an outgoing file, in bytes; the public server accepts 50 MiB, one of your own 2000 MiB.
    #[serde(default = "default_out_bytes_max")]
    #[expect(dead_code, reason = "the host reads it, who lends the files")]
    out_bytes_max: u64,
    /// The folder of a local server's files, if it runs with `--local` on this machine.
    #[serde(default)]
    pub(crate) local_files: Option<PathBuf>,
    /// The parts of an answer that quote the answered message: `first`, `all` or `off`.
    #[serde(default)]
    pub(crate) reply_mode: ReplyMode,
    /// True to show a growing answer as a draft in private chats, instead of by edits.
    #[serde(default)]
    pub(crate) drafts: bool,
    /// True to show previews of links in answers. A preview makes Telegram's servers fetch the address.
    #[serde(default)]
    pub(crate) link_previews: bool,
}

/// The parts of a delivery that are sent as replies.
#[derive(AdapterConfig, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReplyMode {
    /// The first part.
    #[default]
    First,
    /// Every part.
    All,
    /// No part.
    Off,
}

/// The options of outgoing messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendOptions {
    /// The parts that are sent as replies.
    pub reply_mode: ReplyMode,
    /// True to show link previews.
    pub link_previews: bool,
}

fn default_base_url() -> String {
    "https://api.telegram.org".to_owned()
}

fn default_poll_timeout_s() -> u64 {
    25
}

fn default_listen() -> String {
    "127.0.0.1:8443".to_owned()
}

fn default_media_bytes_max() -> u64 {
    20 * 1024 * 1024
}

fn default_out_bytes_max() -> u64 {
    50 * 1024 * 1024
}

impl Config {
    /// Returns the options of outgoing messages.
    pub(crate) fn send_options(&self) -> SendOptions {
        SendOptions { reply_mode: self.reply_mode, link_previews: self.link_previews }
    }

    /// Returns the address on which a webhook's updates arrive; `None` without a webhook.
    pub(crate) fn webhook_address(&self) -> Result<Option<SocketAddr>, String> {
        webhook_address(self.webhook_url.as_deref(), self.webhook_secret.as_deref(), &self.listen)
    }

    /// Validates the values beyond their types.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_token = self.token.split_once(':').is_some_and(|(id, secret)| {
            !secret.is_empty() && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
        });
        if !is_token {
            return Err("`token` does not look like a bot token (123456:ABC…); copy it from @BotFather".to_owned());
        }
        if !(1..=50).contains(&self.poll_timeout_s) {
            return Err(format!("`poll_timeout_s` is {}; choose 1 to 50", self.poll_timeout_s));
        }
        if self.local_files.as_ref().is_some_and(|folder| !folder.is_absolute()) {
            return Err(
                "`local_files` is not an absolute path; use the folder in which the server stores its files".to_owned()
            );
        }
        let addresses = [("base_url", Some(&self.base_url)), ("file_url", self.file_url.as_ref())];
        for (key, address) in addresses {
            if let Some(Err(why)) = address.map(|address| base_url(address)) {
                return Err(format!("`{key}` cannot be used: {why}; use a URL like \"{}\"", default_base_url()));
            }
        }
        self.webhook_address().map(drop)
    }
}

/// Validates the home channel.
pub(crate) fn check_home_channel(home: &str) -> Result<(), String> {
    let is_number = |text: &str| text.trim().parse::<i64>().is_ok();
    let is_chat = match home.split_once(':') {
        Some((id, topic)) => is_number(id) && is_number(topic),
        None => is_number(home),
    };
    // After `@` may come the name of any chat that has sent a message.
    if is_chat || home.strip_prefix('@').is_some_and(|name| !name.trim().is_empty()) {
        return Ok(());
    }
    Err(format!(
        "`home_channel` is {home:?}, which is not a chat; use its number, like \"-1001234\" (\"-1001234:17\" for a topic), or \"@name\""
    ))
}

/// Validates the keys of a webhook; returns its address, or `None` without a webhook.
fn webhook_address(url: Option<&str>, secret: Option<&str>, listen: &str) -> Result<Option<SocketAddr>, String> {
    let Some(url) = url else {
        return match secret {
            Some(_) => {
                Err("`webhook_secret` is set, but `webhook_url` is not; set both, or neither to poll".to_owned())
            }
            None => Ok(None),
        };
    };
    if let Err(why) = base_url(url) {
        return Err(format!(
            "`webhook_url` cannot be used: {why}; use a URL like \"https://bot.example.org/telegram\""
        ));
    }
    let secret = secret.unwrap_or_default();
    let is_secret = (1..=SECRET_BYTES_MAX).contains(&secret.len())
        && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if !is_secret {
        return Err(format!(
            "`webhook_secret` is missing or invalid, and it protects the webhook from forged messages; use 1 to {SECRET_BYTES_MAX} characters of A-Z, a-z, 0-9, _ and -, for example from `openssl rand -hex 32`"
        ));
    }
    listen
        .parse()
        .map(Some)
        .map_err(|_| format!("`listen` is {listen:?}; use an address and a port, like \"{}\"", default_listen()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_webhook_without_a_secret_that_the_server_takes() {
        let listen = default_listen();
        let url = Some("https://bot.example.org/telegram");
        assert_eq!(webhook_address(None, None, &listen), Ok(None));
        assert!(webhook_address(url, Some("a_B-9"), &listen).unwrap().is_some());
        for secret in [None, Some(""), Some("two words"), Some("ä"), Some("x".repeat(257).as_str())] {
            let sentence = webhook_address(url, secret, &listen).unwrap_err();
            assert!(sentence.starts_with("`webhook_secret` is missing"), "{sentence}");
            assert!(secret.is_none_or(|secret| secret.len() < 2 || !sentence.contains(secret)), "{sentence}");
        }
        assert!(webhook_address(None, Some("a"), &listen).unwrap_err().contains("`webhook_url` is not"));
        assert!(
            webhook_address(Some("bot.example.org"), Some("a"), &listen)
                .unwrap_err()
                .starts_with("`webhook_url` cannot")
        );
        assert!(webhook_address(url, Some("a"), "8443").unwrap_err().starts_with("`listen` is \"8443\""));
    }
}
