//! Programs that work on files: find, tar, chmod, ln, sed and awk.

use super::evaluator::{ARGUMENTS, Evaluator};
use super::word::Word;
use super::{scripts, shown};

impl Evaluator<'_> {
    pub(super) fn check_find(&mut self, args: &[Word]) {
        const VALUED: &str = " -name -iname -path -ipath -wholename -type -size -mtime -mmin -atime -amin -ctime -cmin \
            -maxdepth -mindepth -perm -user -group -regex -iregex -regextype -lname -inum -links -fstype -xtype -newer \
            -anewer -cnewer -newermt -samefile -printf -uid -gid -newerct ";
        const PLAIN: &str = " -not ! -o -or -a -and ( ) -print -print0 -prune -empty -ls -xdev -mount -follow -L -P -H -quit \
            -true -false -executable -readable -writable -depth -daystart -noleaf ";
        let lists = |list: &str, text: &str| list.split_whitespace().any(|one| one == text);
        let here = self.folders();
        let is_test =
            |word: &Word| word.text.starts_with(['-', '(', '!']) && !matches!(word.text.as_str(), "-L" | "-P" | "-H");
        let (roots, tests) = args.split_at(args.iter().position(is_test).unwrap_or(args.len()));
        if args.iter().any(|word| !word.known) || roots.iter().any(Word::may_be_option) {
            return self.flag(ARGUMENTS);
        }
        roots.iter().for_each(|word| self.check_read(&here, word, false));
        let mut at = 0;
        while let Some(word) = tests.get(at) {
            let text = word.text.as_str();
            // The shell expands an unquoted pattern to names, and a name may be a test.
            if word.glob && !word.quoted && word.may_be_option() {
                return self.flag("a file name pattern may expand to an option");
            }
            if lists(VALUED, text) {
                at += 2;
            } else if lists(PLAIN, text) {
                at += 1;
            } else if matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir") {
                let ends = |word: &&Word| word.text != ";" && word.text != "+";
                let inner: Vec<Word> = tests[at + 1..].iter().take_while(ends).cloned().collect();
                let inside = roots.iter().all(|word| self.paths.is_inside(&here, word));
                let around = std::mem::replace(&mut self.text, shown(&inner));
                self.check_applied(&inner, inside);
                self.text = around;
                at += inner.len() + 2;
            } else {
                return self.flag(ARGUMENTS);
            }
        }
    }

    pub(super) fn check_test(&mut self, args: &[Word]) {
        const SIGNS: &str =
            " -e -f -d -s -r -w -x -h -L -n -z -eq -ne -lt -le -gt -ge -nt -ot -ef -a -o -b -c -p -S -t ";
        let is_sign = |text: &str| SIGNS.split_whitespace().any(|sign| sign == text);
        let odd = args.iter().any(|word| word.text.starts_with('-') && !is_sign(&word.text));
        if odd || args.iter().any(Word::may_be_option) {
            self.flag(ARGUMENTS);
        }
    }

    pub(super) fn check_tar(&mut self, args: &[Word]) {
        let here = self.folders();
        let (mut letters, mut operands, mut archive) = (String::new(), Vec::new(), None);
        let mut rest = args.iter();
        let mut first = true;
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            if !word.known || word.may_be_option() {
                return self.flag("a file name pattern may expand to an option");
            }
            let bundle = match text.strip_prefix('-') {
                Some(letters) if !letters.starts_with('-') && !letters.is_empty() => Some(letters),
                None if first => Some(text),
                _ => None,
            };
            first = false;
            if let Some(bundle) = bundle {
                for (at, letter) in bundle.char_indices() {
                    letters.push(letter);
                    if !matches!(letter, 'f' | 'C') {
                        continue;
                    }
                    let joined = text.starts_with('-') && at + 1 < bundle.len();
                    let value = if joined { Some(Word::plain(&bundle[at + 1..])) } else { rest.next().cloned() };
                    match value {
                        Some(value) if letter == 'f' => archive = Some(value),
                        Some(value) => self.check_write(&here, &value),
                        None => return self.flag(ARGUMENTS),
                    }
                    if joined {
                        break;
                    }
                }
                continue;
            }
            match text {
                "--list" => letters.push('t'),
                "--extract" => letters.push('x'),
                "--create" => letters.push('c'),
                "--gzip" | "--xz" | "--zstd" | "--bzip2" | "--verbose" | "--" => {}
                _ if text.starts_with("--exclude=") || text.starts_with("--strip-components=") => {}
                _ if text.starts_with("--") => return self.flag(ARGUMENTS),
                _ => operands.push(word),
            }
        }
        if !letters.chars().all(|c| "cxtzjJvfCkOap".contains(c)) {
            return self.flag(ARGUMENTS);
        }
        if archive.as_ref().is_some_and(|archive| archive.text.contains(':')) {
            return self.flag("it opens an archive on another machine");
        }
        match (archive.filter(|archive| archive.text != "-"), letters.contains('c')) {
            (Some(archive), true) => self.check_write(&here, &archive),
            (Some(archive), false) => {
                self.brought |= self.is_written(&archive.text);
                self.check_read(&here, &archive, false);
            }
            (None, creates) => self.brought |= !creates,
        }
        if letters.contains('c') {
            operands.iter().for_each(|word| self.check_read(&here, word, true));
        } else if self.remote && letters.contains('x') {
            self.flag("it writes on another machine");
        }
    }

    pub(super) fn check_chmod(&mut self, args: &[Word]) {
        let here = self.folders();
        let Some((mode, files)) = args.split_first().filter(|(_, files)| !files.is_empty()) else {
            return self.flag(ARGUMENTS);
        };
        let octal = mode.text.trim_start_matches('0');
        let is_octal = octal.len() == 3 && octal.chars().all(|c| ('0'..='7').contains(&c));
        let numbers = is_octal && octal.ends_with(['0', '1', '4', '5']) && !octal[1..2].contains(['2', '3']);
        let symbols = mode.text.split(',').all(|part| {
            let (who, what) = part.split_at(part.find(['+', '-', '=']).unwrap_or(part.len()));
            let rights = what.get(1..).unwrap_or_default();
            let opens = what.starts_with(['+', '=']) && rights.contains('w') && who.contains(['o', 'a', 'g']);
            let plain = who.chars().all(|c| "ugoa".contains(c)) && rights.chars().all(|c| "rwxX".contains(c));
            !what.is_empty() && plain && !opens
        });
        if !mode.known || mode.text.starts_with('-') || !(numbers || symbols) {
            return self.flag("it opens files to other users");
        }
        let written = self.written.clone();
        files.iter().for_each(|word| self.check_write(&here, word));
        // Only the permissions of the files change, not their contents.
        self.written = written;
    }

    pub(super) fn check_ln(&mut self, options: &[&str], operands: &[Word]) {
        let here = self.folders();
        let symbolic = options.iter().any(|option| matches!(*option, "s" | "--symbolic"));
        let (target, sources) = match operands {
            [source] => (source, std::slice::from_ref(source)),
            [sources @ .., target] => (target, sources),
            [] => return self.flag(ARGUMENTS),
        };
        let name = |word: &Word| word.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        let mut linked = Vec::new();
        for source in sources {
            self.check_read(&here, source, false);
            let text = source.text.as_str();
            // A link to another entry of the working folder is permitted, unlike one to a program or to a
            // system file.
            let far = !symbolic || text.starts_with(['/', '~']) || source.glob || !source.known;
            if text.contains("hermes-host") || far && !self.paths.is_inside(&here, source) {
                self.flag("it links to a file outside the working folder");
            }
            linked.push(name(source));
        }
        self.check_write(&here, target);
        if !matches!(target.text.as_str(), "." | "./") {
            linked.push(name(target));
        }
        self.linked.extend(linked);
    }

    pub(super) fn check_sed(&mut self, args: &[Word]) {
        const FLAGS: &str = " -n -E -r -s -u -z --quiet --silent --regexp-extended -nE -En -nr ";
        let here = self.folders();
        let (mut scripts, mut files, mut in_place) = (Vec::new(), Vec::new(), false);
        let mut rest = args.iter();
        while let Some(word) = rest.next() {
            let text = word.text.as_str();
            if !word.known {
                return self.flag("a sed program is known only when it runs");
            }
            let is_suffix = |text: &str| {
                text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '~' | '_') || "bakorig".contains(c))
            };
            match text {
                _ if FLAGS.split_whitespace().any(|flag| flag == text) => {}
                "-i" | "--in-place" | "-Ei" | "-ri" | "-ni" => in_place = true,
                "-e" | "--expression" | "-ne" | "-Ee" | "-nEe" => {
                    let Some(script) = rest.next() else { return self.flag(ARGUMENTS) };
                    scripts.push(script);
                }
                _ if text.starts_with("-i.") && is_suffix(&text[2..]) => in_place = true,
                _ if text.starts_with('-') && text.len() > 1 => return self.flag(ARGUMENTS),
                _ if word.may_be_option() && !word.quoted => {
                    return self.flag("a file name pattern may expand to an option");
                }
                _ => files.push(word),
            }
        }
        if scripts.is_empty() {
            if files.is_empty() {
                return self.flag(ARGUMENTS);
            }
            scripts.push(files.remove(0));
        }
        let edits =
            |script: &&Word| script.known && (!script.glob || script.quoted) && scripts::sed_edits(&script.text);
        if !scripts.iter().all(edits) {
            self.flag("a sed program may run commands or write files");
        }
        let written = self.written.clone();
        for file in files {
            match in_place {
                true => self.check_write(&here, file),
                false => self.check_read(&here, file, false),
            }
        }
        // An edited script could do anything, but it was already a file of the working folder.
        self.written = written;
    }

    pub(super) fn check_awk(&mut self, args: &[Word]) {
        let here = self.folders();
        let mut at = 0;
        while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-') && word.text.len() > 1) {
            if !word.known {
                return self.flag(ARGUMENTS);
            }
            at += match word.text.as_str() {
                "-F" | "-v" => 2,
                "--" => 1,
                text if text.starts_with("-F") || text.starts_with("-v") => 1,
                _ => return self.flag(ARGUMENTS),
            };
            if args[at - 1].text == "--" {
                break;
            }
        }
        let Some((program, files)) = args.get(at..).and_then(<[Word]>::split_first) else {
            return self.flag(ARGUMENTS);
        };
        if !program.known || program.glob && !program.quoted || !scripts::awk_prints(&program.text) {
            return self.flag("an awk program may run commands or write files");
        }
        files.iter().for_each(|word| self.check_read(&here, word, false));
    }

    /// Checks the output file of a transfer.
    pub(super) fn check_output_file(&mut self, path: &Word) {
        let here = self.folders();
        self.check_write(&here, path);
        if path.known && !path.text.starts_with("/dev/") && self.paths.exists(&here, &path.text) {
            self.flag("it overwrites a file");
        }
    }
}
