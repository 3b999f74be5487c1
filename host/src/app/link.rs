//! The links of adapters: announced URLs with the secrets that the adapters created.
//!
//! The host knows no adapter. A secret of an adapter is a value in its own key-value scope that also occurs in its
//! announcement. To rotate it, the host deletes the value and restarts the instance, which creates a new one.

use super::App;
use super::control::{Answer, Refusal, refusal, refused, stored};
use crate::engine::operator::{ControlReply, ErrorKind};
use hermes_core::text::one_line;
use hermes_loader::AdapterStatus;

/// The longest announcement that is shown, in characters.
const LINE_CHARS_MAX: usize = 2_048;

impl App {
    /// Answers with the URLs of an instance. `rotate`: its own secrets are replaced first.
    pub(super) async fn link(&self, name: &str, rotate: bool) -> Answer {
        let status = self.meant(name)?;
        let instance = status.name.clone();
        let mut said = String::new();
        if rotate {
            let announced: Vec<String> =
                status.announced.iter().map(|(label, url)| format!("{label}\n{url}")).collect();
            let secrets = stored(self.host.store.kv_within(&instance, &announced.join("\n"))).await?;
            if secrets.is_empty() {
                return Err(refused(format!(
                    "{instance} has no generated secret to rotate; change a configured secret in its section, and \
                     rotate a generated one when the adapter is online"
                )));
            }
            for (key, _) in secrets {
                stored(self.host.store.kv_delete(&instance, &key)).await?;
            }
            self.reload_adapter(&instance).await?;
            said.push_str(&format!("Rotated the secret of {instance}; the former one is no longer valid.\n"));
        }
        let status = self.meant(&instance)?;
        let lines: Vec<String> = status.announced.iter().map(|(label, url)| line(label, url)).collect();
        if lines.is_empty() && rotate {
            said.push_str(&format!(
                "The new address is shown by `hermes-host adapter link {instance}` as soon as the adapter announces it."
            ));
            return Ok(ControlReply::done(said));
        }
        if lines.is_empty() {
            let words = format!("{instance} is {} and has not announced an address", status.state);
            return Err(refusal(ErrorKind::NotFound, words));
        }
        Ok(ControlReply::done(said + &lines.join("\n")))
    }

    /// Returns the instance with this name, of this plugin, or with this unique prefix.
    fn meant(&self, name: &str) -> Result<AdapterStatus, Refusal> {
        let mut all = self.adapters.statuses();
        let is_meant: [&dyn Fn(&AdapterStatus) -> bool; 3] =
            [&|one| one.name == name, &|one| one.plugin == name, &|one| {
                one.name.starts_with(name) || one.plugin.starts_with(name)
            }];
        for is_meant in is_meant {
            let found: Vec<usize> = (0..all.len()).filter(|n| is_meant(&all[*n])).collect();
            match found[..] {
                [] => {}
                [only] => return Ok(all.swap_remove(only)),
                _ => {
                    let names: Vec<&str> = found.iter().map(|n| all[*n].name.as_str()).collect();
                    let words = format!(
                        "{name} is ambiguous: it matches {}; write the name of the instance",
                        names.join(" or ")
                    );
                    return Err(refusal(ErrorKind::Invalid, words));
                }
            }
        }
        // The refusal of an unknown name contains the nearest one.
        self.instance(name)?;
        Err(refusal(ErrorKind::NotFound, format!("{name} is not running")))
    }
}

/// Formats one announcement, without control characters.
pub(super) fn line(label: &str, url: &str) -> String {
    let (label, url) = (one_line(label, LINE_CHARS_MAX), one_line(url, LINE_CHARS_MAX));
    if url.is_empty() { label } else { format!("{label}: {url}") }
}

/// Masks the secrets in an announcement.
pub(super) fn without_secrets(instance: &str, line: String, secrets: &[(String, String)]) -> String {
    if secrets.is_empty() {
        return line;
    }
    let hidden = secrets.iter().fold(line, |line, (_, secret)| line.replace(secret.as_str(), "…"));
    format!("{hidden} (`hermes-host adapter link {instance}` shows it)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_one_line_whatever_the_adapter_says() {
        assert_eq!(line("chat", "http://127.0.0.1:8643/?token=x"), "chat: http://127.0.0.1:8643/?token=x");
        assert_eq!(line("@hermes\n\u{1b}[2Jbot", ""), "@hermes [2Jbot");
        assert_eq!(line("x", &"y".repeat(9_999)).chars().count(), "x: ".len() + LINE_CHARS_MAX);
    }

    #[test]
    fn a_journal_gets_the_address_without_its_secret() {
        let secret = "0123456789abcdef";
        let secrets = [("token".to_owned(), secret.to_owned())];
        let told = without_secrets("web", line("chat", &format!("http://x/?token={secret}")), &secrets);
        assert_eq!(told, "chat: http://x/?token=… (`hermes-host adapter link web` shows it)");
        let told = without_secrets("api", line(&format!("HTTP API (key {secret})"), "http://x/v1"), &secrets);
        assert!(!told.contains(secret) && told.contains("http://x/v1"), "{told}");
        assert_eq!(without_secrets("bot", "@bot".to_owned(), &[]), "@bot");
    }
}
