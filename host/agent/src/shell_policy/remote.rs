//! Programs that access other machines: transfers, remote shells, databases and clouds.

use super::evaluator::{ARGUMENTS, Evaluator, is_name};
use super::scripts;
use super::word::Word;

/// Options of curl without a value, as letters.
const CURL_FLAGS: &str = "sSfLkIivgJO#46NG";

/// Long options of curl without a value.
const CURL_LONG: &str = " --silent --show-error --fail --location --insecure --head --include --verbose --compressed \
    --globoff --remote-name --remote-header-name --progress-bar --ipv4 --ipv6 --http2 --get --fail-with-body ";

/// Options of curl with a text value.
const CURL_TEXTS: &str = " -A -e -m --max-time --connect-timeout --retry --retry-delay --user-agent -w --write-out \
    --max-redirs --limit-rate ";

/// Options of wget without a value.
const WGET_FLAGS: &str = " -q -c -nv -nc -N -S -4 -6 --quiet --continue --no-verbose --spider --no-check-certificate \
    --no-clobber --show-progress --server-response ";

/// Addresses of cloud metadata services, which return credentials.
const METADATA: [&str; 5] = ["169.254.", "metadata.google", "100.100.100.200", "fd00:ec2", "metadata.azure"];

/// Redis commands that only read.
const REDIS: &str = " get mget keys scan ping info dbsize ttl pttl type exists hget hgetall hkeys lrange llen smembers scard \
    zrange zcard strlen time lastsave echo ";

const UPLOADS: &str = "it sends data or does more than fetch";
const ELSEWHERE: &str = "it runs statements that it loads from elsewhere";
const CHANGES: &str = "it may change a database";

fn lists(list: &str, text: &str) -> bool {
    list.split_whitespace().any(|one| one == text)
}

impl Evaluator<'_> {
    pub(super) fn check_curl(&mut self, args: &[Word]) {
        let mut rest = args.iter();
        let (mut addresses, mut names) = (Vec::new(), false);
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            if !word.known {
                return self.flag("it sends text that is known only when it runs");
            }
            if !text.starts_with('-') {
                addresses.push(word);
            } else if text == "--output" {
                match rest.next() {
                    Some(path) => self.check_output_file(path),
                    None => return self.flag(ARGUMENTS),
                }
            } else if lists(CURL_LONG, text) {
                names |= text.starts_with("--remote");
            } else if lists(CURL_TEXTS, text) || matches!(text, "-H" | "--header" | "-X" | "--request") {
                let value = rest.next().filter(|word| word.known).map(|word| word.text.as_str()).unwrap_or("@");
                let method = !matches!(text, "-X" | "--request") || matches!(value, "GET" | "HEAD" | "OPTIONS");
                if value.starts_with('@') || value.contains("%output") || !method {
                    return self.flag(UPLOADS);
                }
            } else {
                match self.check_curl_bundle(text, &mut rest) {
                    Some(remote) => names |= remote,
                    None => return self.flag(UPLOADS),
                }
            }
        }
        self.brought |= names;
        self.check_addresses(&addresses);
    }

    /// Checks a bundle of letters of curl; the last letter may be `o`, `w` or `X` with its value. Returns true
    /// if the server chooses the file name.
    fn check_curl_bundle<'w>(&mut self, text: &str, rest: &mut impl Iterator<Item = &'w Word>) -> Option<bool> {
        let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        let (flags, last) = letters.split_at(letters.find(['o', 'w', 'X']).unwrap_or(letters.len()));
        if !flags.chars().all(|c| CURL_FLAGS.contains(c)) {
            return None;
        }
        if let Some(kind) = last.chars().next() {
            let value = if last.len() == 1 { rest.next()?.clone() } else { Word::plain(&last[1..]) };
            match kind {
                'o' => self.check_output_file(&value),
                'X' if !matches!(value.text.as_str(), "GET" | "HEAD" | "OPTIONS") => return None,
                'w' if value.text.starts_with('@') || value.text.contains("%output") => return None,
                _ => {}
            }
        }
        Some(flags.contains(['O', 'J']))
    }

    fn check_addresses(&mut self, addresses: &[&Word]) {
        if addresses.is_empty() {
            return self.flag(ARGUMENTS);
        }
        for word in addresses {
            let text = word.text.to_ascii_lowercase();
            let scheme = text.split_once("://").map(|(scheme, _)| scheme);
            if scheme.is_some_and(|scheme| scheme != "http" && scheme != "https") || text.starts_with(['/', '@', '~']) {
                return self.flag("it opens an address that is not a web address");
            }
            if METADATA.iter().any(|name| text.contains(name)) {
                return self.flag("it reads the credentials of the machine");
            }
        }
    }

    pub(super) fn check_wget(&mut self, args: &[Word]) {
        const VALUED: [&str; 5] = ["--timeout", "--tries", "--user-agent", "--wait", "--limit-rate"];
        let mut rest = args.iter();
        let (mut addresses, mut named) = (Vec::new(), false);
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            if !word.known {
                return self.flag("it sends text that is known only when it runs");
            }
            let (option, value) = text.split_once('=').unwrap_or((text, ""));
            match option {
                _ if !text.starts_with('-') => addresses.push(word),
                "-O-" | "-qO-" | "-nvO-" => named = true,
                "-O" | "--output-document" | "-P" | "--directory-prefix" | "-qO" | "-nvO" => {
                    let joined = (!value.is_empty()).then(|| Word::plain(value));
                    let Some(path) = joined.or_else(|| rest.next().cloned()) else {
                        return self.flag(ARGUMENTS);
                    };
                    named |= option.ends_with(['O', 't']);
                    if path.text != "-" {
                        self.check_output_file(&path);
                    }
                }
                "-t" | "-T" | "-U" | "-w" => {
                    rest.next();
                }
                _ if lists(WGET_FLAGS, text) || VALUED.contains(&option) && !value.is_empty() => {}
                _ => return self.flag(UPLOADS),
            }
        }
        self.brought |= !named;
        self.check_addresses(&addresses);
    }

    pub(super) fn check_ssh(&mut self, args: &[Word]) {
        const HARMLESS: [&str; 3] = ["ConnectTimeout=", "BatchMode=", "ServerAliveInterval="];
        let mut at = 0;
        while let Some(text) = args.get(at).map(|word| word.text.as_str()).filter(|text| text.starts_with('-')) {
            let value = args.get(at + 1).map(|word| word.text.as_str()).unwrap_or_default();
            at += match text {
                "-q" | "-T" | "-n" | "-4" | "-6" | "-v" | "-t" => 1,
                "-p" | "-l" => 2,
                "-o" if HARMLESS.iter().any(|name| value.starts_with(name)) => 2,
                _ => return self.flag("it passes ssh settings that may run commands or open connections"),
            };
        }
        let Some((host, command)) = args.get(at..).and_then(<[Word]>::split_first) else {
            return self.flag(ARGUMENTS);
        };
        let plain = host.text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.@:".contains(c));
        if !plain || !host.known || command.is_empty() {
            return self.flag("it opens a shell on another machine");
        }
        if command.iter().any(|word| !word.known || word.glob && !word.quoted) {
            return self.flag("it runs text that is known only when it runs on another machine");
        }
        let code: Vec<&str> = command.iter().map(|word| word.text.as_str()).collect();
        let around = std::mem::replace(&mut self.remote, true);
        self.check_nested(&code.join(" "));
        self.remote = around;
    }

    pub(super) fn check_database(&mut self, name: &str, args: &[Word]) {
        if args.iter().any(|word| !word.known) {
            return self.flag("a statement is known only when it runs");
        }
        match name {
            "redis-cli" => self.check_redis(args),
            "sqlite3" => self.check_sqlite(args),
            _ => self.check_sql_client(name == "psql", args),
        }
    }

    fn check_statement(&mut self, text: &str) {
        if !scripts::sql_reads(text) {
            self.flag(CHANGES);
        }
    }

    fn check_sqlite(&mut self, args: &[Word]) {
        const FLAGS: &str = " -header -csv -column -json -line -readonly -batch -list -markdown -table -box -noheader ";
        let here = self.folders();
        let is_flag = |word: &&Word| lists(FLAGS, &word.text.replacen("--", "-", 1));
        let operands: Vec<&Word> = args.iter().filter(|word| !is_flag(word)).collect();
        match operands[..] {
            [file, ref statements @ ..] if !statements.is_empty() && !file.text.starts_with('-') => {
                self.check_read(&here, file, false);
                if file.text.contains([':', '?']) {
                    return self.flag(ARGUMENTS);
                }
                statements.iter().for_each(|word| self.check_statement(&word.text));
            }
            _ => self.flag(ELSEWHERE),
        }
    }

    fn check_sql_client(&mut self, postgres: bool, args: &[Word]) {
        let (mut rest, mut says) = (args.iter(), false);
        let (code, long) = if postgres { ("-c", "--command") } else { ("-e", "--execute") };
        let valued = if postgres { " -h -U -p -d " } else { " -h -u -P -D " };
        let flags = if postgres { " -t -A -q -x -X -At -tA -qt -w " } else { " -B -N -t -s -p " };
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            let statement = match text.split_once('=') {
                Some((option, statement)) if option == long => Some(statement.to_owned()),
                _ if text == code || text == long => {
                    Some(rest.next().map(|word| word.text.clone()).unwrap_or_default())
                }
                _ => None,
            };
            if let Some(statement) = statement {
                says = true;
                self.check_statement(&statement);
            } else if postgres && matches!(text, "-l" | "--list") {
                says = true;
            } else if lists(valued, text) {
                rest.next();
            } else if !lists(flags, text) && (text.starts_with('-') || text.contains('\\')) {
                return self.flag(ARGUMENTS);
            }
        }
        if !says {
            self.flag(ELSEWHERE);
        }
    }

    fn check_redis(&mut self, args: &[Word]) {
        let mut at = 0;
        while let Some(text) = args.get(at).map(|word| word.text.as_str()).filter(|text| text.starts_with('-')) {
            at += match text {
                "-h" | "-p" | "-n" => 2,
                "--raw" | "--no-raw" => 1,
                _ => return self.flag(ARGUMENTS),
            };
        }
        let command = args.get(at).map(|word| word.text.to_ascii_lowercase()).unwrap_or_default();
        if !lists(REDIS, &command) {
            self.flag(CHANGES);
        }
    }

    /// Checks a cloud client. Only commands that list or describe non-secret resources are permitted.
    pub(super) fn check_cloud(&mut self, name: &str, args: &[Word]) {
        const SECRETS: [&str; 14] = [
            "secret",
            "kms",
            "ssm",
            "token",
            "credential",
            "password",
            "key",
            "auth",
            "iam",
            "config",
            "print-",
            "login",
            "decrypt",
            "userdata",
        ];
        const OPTIONS: &str = " --region --profile --output --query --project --zone --format --filter --limit -o -g \
            --resource-group --max-items --recursive --human-readable --summarize ";
        let words: Vec<&str> = args.iter().map(|word| word.text.as_str()).collect();
        let operands: Vec<&str> = words.iter().copied().take_while(|word| !word.starts_with('-')).collect();
        let reads = match (name, &operands[..]) {
            ("aws", ["s3", "ls", ..] | ["sts", "get-caller-identity"]) => true,
            ("aws", [_, command]) => command.starts_with("describe-") || command.starts_with("list-"),
            ("gcloud", [.., "list" | "describe"] | ["version" | "info"] | [.., "describe", _]) => true,
            ("az", ["account", "show" | "list"] | [_, "list" | "show"]) => true,
            _ => false,
        };
        let mut options = words.iter().filter(|word| word.starts_with('-'));
        let known = options.all(|word| lists(OPTIONS, word.split('=').next().unwrap_or_default()));
        let has_secret = |word: &&str| SECRETS.iter().any(|secret| word.to_ascii_lowercase().contains(secret));
        let plain = |word: &Word| word.known && (is_name(word) || word.text.starts_with("s3://") || word.quoted);
        let files = words.iter().any(|word| word.contains("file:") || word.contains("fileb:"));
        if !reads || !known || operands.iter().any(has_secret) || !args.iter().all(plain) || files {
            self.flag("it changes cloud resources or reads their secrets");
        }
    }
}
