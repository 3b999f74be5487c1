//! Dangerous commands, which need approval. A longer approval is named after them.
//!
//! A pattern is a program name followed by required arguments in any order. Each word of a pattern lists
//! alternatives separated by `|`; `*` matches any text; a single letter after a dash matches in any bundle of
//! short options. The operator's patterns use the same syntax.

use super::word::Word;

/// Patterns and their reasons.
const COMMANDS: &[(&str, &str)] = &[
    ("rm|unlink|shred|srm|wipe|trash", "it deletes files"),
    ("rmdir", "it deletes folders"),
    ("truncate", "it truncates files"),
    ("install|rename|rsync", "it can overwrite files"),
    ("dd|dcfldd|dc3dd", "it writes raw bytes to files and devices"),
    ("mkfs*|mkswap|wipefs|fdisk|sfdisk|cfdisk|parted|gdisk|sgdisk|blkdiscard|hdparm|nvme", "it changes a disk"),
    ("chown|chgrp|setfacl|chattr", "it changes the owner or the permissions of files"),
    ("chmod -R|--recursive", "it changes the permissions of whole folders"),
    ("find -delete|-fprint*|-fls", "it deletes or writes files"),
    (
        "systemctl stop|start|restart|disable|enable|mask|unmask|kill|isolate|reboot|poweroff|halt|kexec|edit|set-default|revert|try-restart|reload|reload-or-restart|emergency|rescue|suspend|hibernate",
        "it changes services",
    ),
    ("service|rc-service|sv|initctl stop|start|restart|reload|disable|down|up|kill|force-*", "it changes services"),
    ("shutdown|reboot|halt|poweroff|telinit|init|rtcwake", "it shuts down the machine"),
    ("killall|pkill|skill|kill|fuser|xkill", "it ends processes"),
    ("loginctl terminate*|kill*|lock*", "it ends sessions"),
    ("git reset --hard|--merge|--keep", "it discards changes"),
    (
        "git push -f|--force|--force-with-lease|--force-if-includes|--mirror|--delete|--prune|-d|+*|:*",
        "it rewrites a published history",
    ),
    ("git clean -f|--force", "it deletes files"),
    ("git checkout|restore|switch -f|--force|--discard-changes|.|:/*|--", "it discards changes"),
    ("git branch -D|-d|--delete|-f|--force|-M|-m|-C", "it deletes or moves branches"),
    ("git tag -d|--delete|-f|--force", "it deletes or moves tags"),
    ("git stash drop|clear", "it discards changes"),
    ("git reflog expire|delete", "it rewrites the history"),
    ("git update-ref|filter-branch|filter-repo", "it rewrites the history"),
    ("git rm", "it deletes files"),
    ("docker|podman|docker-compose rm|rmi|prune|kill|down|stop|restart", "it stops or removes containers"),
    ("kubectl|oc delete|drain|replace|scale|apply|patch|edit|cordon|restart|undo", "it changes a cluster"),
    ("helm uninstall|delete|install|upgrade|rollback", "it changes a cluster"),
    ("terraform|tofu|pulumi|cdk destroy|apply|down|up|deploy", "it changes deployed systems"),
    ("crontab -r|-e", "it changes scheduled commands"),
    (
        "useradd|userdel|usermod|groupadd|groupdel|groupmod|passwd|chpasswd|visudo|chsh|adduser|deluser",
        "it changes accounts",
    ),
    ("iptables|ip6tables|nft|ufw|firewall-cmd", "it changes the firewall"),
    ("apt|apt-get|aptitude|dnf|yum|zypper|apk remove|purge|autoremove|erase|del", "it removes packages"),
    (
        "apt|apt-get|aptitude|dnf|yum|zypper|apk|snap|brew install|add|update|upgrade|dist-upgrade|full-upgrade",
        "it changes system packages",
    ),
    ("swapoff|umount|mount|losetup|cryptsetup|lvremove|vgremove|pvremove|zfs|zpool|btrfs|mdadm", "it changes a disk"),
    ("modprobe|insmod|rmmod", "it changes the kernel"),
    ("npm|yarn|pnpm|cargo|poetry|twine|gem publish|unpublish|yank|push|upload", "it publishes a package"),
    ("redis-cli flushall|flushdb|shutdown|config|eval|del|set", "it changes a database"),
    ("dropdb|dropuser|createdb|createuser|pg_restore", "it changes a database"),
    (
        "gh repo|release|issue|pr|secret|gist delete|create|edit|close|merge|archive|transfer|set|remove",
        "it changes published content",
    ),
];

/// A match of a pattern.
pub(super) struct PatternMatch {
    /// Name of a longer approval. Contains only words of the pattern and the program.
    pub label: String,
    /// Reason of the danger.
    pub why: String,
}

/// Compares a command with the table and with the operator's patterns.
pub(super) fn find(own: &[String], name: &str, args: &[Word]) -> Option<PatternMatch> {
    let own = own.iter().map(|pattern| (pattern.as_str(), "the operator requires approval for it"));
    let mut hits = COMMANDS.iter().copied().chain(own).filter_map(|(pattern, why)| {
        let label = compare(pattern, name, args)?;
        Some(PatternMatch { label, why: why.to_owned() })
    });
    let first = hits.next()?;
    // The operator's own reason is appended, so that another one does not hide it.
    let why = hits.fold(first.why.clone(), |why, hit| if hit.why == why { why } else { format!("{why}; {}", hit.why) });
    Some(PatternMatch { why, ..first })
}

/// Returns the label of a command that matches a pattern.
fn compare(pattern: &str, name: &str, args: &[Word]) -> Option<String> {
    let mut words = pattern.split_whitespace();
    if !words.next()?.split('|').any(|pattern| matches(pattern, name)) {
        return None;
    }
    let mut label = name.to_owned();
    for alternatives in words {
        let found = alternatives.split('|').find(|pattern| args.iter().any(|arg| is_argument(pattern, &arg.text)))?;
        label.push(' ');
        label.push_str(found);
    }
    Some(label)
}

/// Returns true if an argument matches a word of a pattern.
fn is_argument(pattern: &str, text: &str) -> bool {
    if matches(pattern, text) || matches(pattern, &text.to_ascii_lowercase()) {
        return true;
    }
    if pattern.starts_with("--") {
        // Long options may be abbreviated and may carry a value.
        let option = text.split('=').next().unwrap_or_default();
        return option.len() > 3 && pattern.starts_with(option);
    }
    let mut letters = pattern.strip_prefix('-').unwrap_or_default().chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => text.starts_with('-') && !text.starts_with("--") && text.contains(letter),
        _ => false,
    }
}

/// Returns true if a text matches a pattern, in which `*` matches any text and `?` matches one character.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (part, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match part.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    p = at + 1;
                    n = from + 1;
                    star = Some((at, from + 1));
                }
                None => return false,
            },
        }
    }
    part[p..].iter().all(|c| *c == '*')
}
