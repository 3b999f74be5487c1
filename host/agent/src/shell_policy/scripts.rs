//! Programs in other languages inside of arguments: awk, sed, SQL and jq.

/// SQL functions that only compute.
const SQL_FUNCTIONS: &str = " count sum avg min max total coalesce length lower upper substr substring date time datetime \
    strftime julianday unixepoch now round abs json_extract json_array_length group_concat string_agg array_agg \
    row_number rank dense_rank lag lead cast nullif ifnull iif date_trunc extract to_char concat typeof trim ltrim rtrim \
    replace instr printf format current_database current_schema database user current_user sqlite_version table_info \
    index_list index_info foreign_key_list pg_size_pretty pg_database_size pg_total_relation_size year month left right ";

/// SQL keywords that may precede an opening parenthesis.
const SQL_WORDS: &str = " in from where and or not as exists values over on using join union all select by any then else \
    when having filter partition ";

/// SQL keywords that change data or access files and programs.
const SQL_DENIED: &str = " insert update delete drop alter create attach detach vacuum reindex truncate grant revoke copy \
    call do merge lock set into outfile dumpfile load_file load_extension program exec execute prepare rename kill \
    shutdown handler load import analyze cluster refresh notify listen begin commit rollback writefile readfile edit \
    source system for ";

/// Dot commands of sqlite that only read.
const SQLITE_DOTS: [&str; 9] =
    [".tables", ".schema", ".headers", ".mode", ".databases", ".indexes", ".dbinfo", ".width", ".help"];

fn lists(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

/// Returns true if SQL, including commands of its client, only reads.
pub(super) fn sql_reads(text: &str) -> bool {
    let text = text.trim();
    if let Some(name) = text.split_whitespace().next().filter(|name| name.starts_with('.')) {
        return SQLITE_DOTS.contains(&name) && !text.contains(['\n', '|', ';']);
    }
    if let Some(command) = text.strip_prefix('\\') {
        let name = command.split_whitespace().next().unwrap_or_default();
        let describes = name.starts_with('d') || matches!(name, "l" | "l+" | "x" | "conninfo");
        return describes && command.chars().all(|c| c.is_alphanumeric() || " .*+_".contains(c));
    }
    if text.contains('\\') || text.contains("--") && text.contains('\n') {
        return false;
    }
    let lower = text.to_ascii_lowercase();
    if lower.lines().any(|line| line.trim_start().starts_with('.')) {
        return false;
    }
    let statements: Vec<&str> = lower.split(';').map(str::trim).filter(|statement| !statement.is_empty()).collect();
    let begins = |statement: &&str| {
        let first = statement.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let pragma = first == "pragma" && !statement.contains('=');
        pragma || matches!(first, "select" | "show" | "describe" | "desc" | "explain" | "with")
    };
    !statements.is_empty() && statements.iter().all(begins) && words_read(&lower)
}

fn words_read(lower: &str) -> bool {
    let bytes = lower.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
    let mut at = 0;
    while at < bytes.len() {
        if !is_word(bytes[at]) {
            at += 1;
            continue;
        }
        let end = (at..bytes.len()).find(|at| !is_word(bytes[*at])).unwrap_or(bytes.len());
        let word = &lower[at..end];
        let calls = lower[end..].trim_start().starts_with('(');
        let known = lists(SQL_FUNCTIONS, word) || lists(SQL_WORDS, word);
        let replaces = word == "replace" && !calls;
        if lists(SQL_DENIED, word) || replaces || word.starts_with("xp_") || calls && !known {
            return false;
        }
        at = end;
    }
    // A quoted name may be that of any function.
    !["\"(", "](", "`(", "\" (", "` (", "*/"].iter().any(|call| lower.contains(call))
}

/// Returns true if an awk program only computes and prints.
pub(super) fn awk_prints(text: &str) -> bool {
    const DENIED: [&str; 9] = ["system", "getline", "@", "ENVIRON", "PROCINFO", "close(", "fflush", "ARGV", "\\\n"];
    if DENIED.iter().any(|word| text.contains(word)) || text.replace("||", "").contains('|') {
        return false;
    }
    // A "greater than" sign after `print` is a redirection.
    let mut rest = text;
    while let Some(at) = rest.find("print") {
        rest = &rest[at + 5..];
        if rest[..rest.find('\n').unwrap_or(rest.len())].contains('>') {
            return false;
        }
    }
    true
}

/// Returns true if a jq filter reads neither the environment nor other files.
pub(super) fn jq_reads(text: &str) -> bool {
    !["env", "ENV", "import", "include", "input_filename", "load"].iter().any(|word| text.contains(word))
}

/// Returns true if a sed program only edits its input: it runs no command and opens no other file.
pub(super) fn sed_edits(script: &str) -> bool {
    Sed { rest: script }.script().is_some()
}

struct Sed<'s> {
    rest: &'s str,
}

impl Sed<'_> {
    fn script(&mut self) -> Option<()> {
        let mut open = 0_usize;
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', '\n', ';']);
            let Some(first) = self.rest.chars().next() else { return (open == 0).then_some(()) };
            match first {
                '}' => {
                    open = open.checked_sub(1)?;
                    self.take(1);
                }
                '#' => self.line(),
                _ => {
                    self.addresses()?;
                    let command = self.rest.chars().next()?;
                    self.take(command.len_utf8());
                    if command == '{' {
                        open += 1;
                    } else {
                        self.command(command)?;
                    }
                }
            }
        }
    }

    fn command(&mut self, command: char) -> Option<()> {
        match command {
            's' => self.substitute(),
            'y' => {
                let delimiter = self.delimiter()?;
                self.until(delimiter)?;
                self.until(delimiter)?;
                self.ends()
            }
            'a' | 'i' | 'c' => {
                self.line();
                Some(())
            }
            'b' | 't' | 'T' | ':' => {
                let end = self.rest.find([';', '\n', '}']).unwrap_or(self.rest.len());
                let plain = self.rest[..end].trim().chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                self.take(end);
                plain.then_some(())
            }
            'p' | 'P' | 'd' | 'D' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'z' | 'l' => self.ends(),
            'q' | 'Q' => {
                self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
                self.ends()
            }
            _ => None,
        }
    }

    fn take(&mut self, count: usize) {
        self.rest = &self.rest[count..];
    }

    /// Skips text to the end of its line. A line that ends with a backslash continues in the next one.
    fn line(&mut self) {
        let mut end = 0;
        for line in self.rest.split_inclusive('\n') {
            end += line.len();
            if !line.trim_end_matches('\n').ends_with('\\') {
                break;
            }
        }
        self.take(end);
    }

    fn addresses(&mut self) -> Option<()> {
        for _ in 0..2 {
            let is_step = |c: char| c.is_ascii_digit() || matches!(c, '+' | '~');
            match self.rest.chars().next()? {
                '/' => {
                    self.take(1);
                    self.until('/')?;
                    self.rest = self.rest.trim_start_matches(['I', 'M']);
                }
                '$' => self.take(1),
                c if is_step(c) => self.rest = self.rest.trim_start_matches(is_step),
                _ => break,
            }
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            match self.rest.strip_prefix(',') {
                Some(rest) => self.rest = rest.trim_start_matches([' ', '\t']),
                None => break,
            }
        }
        self.rest = self.rest.trim_start_matches(['!', ' ', '\t']);
        Some(())
    }

    fn delimiter(&mut self) -> Option<char> {
        let delimiter = self.rest.chars().next().filter(|c| c.is_ascii_punctuation() && !matches!(c, '\\' | '['))?;
        self.take(1);
        Some(delimiter)
    }

    /// Skips to the next delimiter. A delimiter inside of brackets is ambiguous and therefore refused.
    fn until(&mut self, delimiter: char) -> Option<()> {
        let (mut escaped, mut bracket) = (false, false);
        for (at, c) in self.rest.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\n' => return None,
                '\\' => escaped = true,
                c if c == delimiter && bracket => return None,
                c if c == delimiter => {
                    self.take(at + c.len_utf8());
                    return Some(());
                }
                '[' => bracket = true,
                ']' => bracket = false,
                _ => {}
            }
        }
        None
    }

    fn substitute(&mut self) -> Option<()> {
        let delimiter = self.delimiter()?;
        self.until(delimiter)?;
        // The replacement has no brackets.
        let mut escaped = false;
        let end = self.rest.char_indices().find(|(_, c)| {
            let ends = (*c == delimiter || *c == '\n') && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let (end, last) = end?;
        if last == '\n' {
            return None;
        }
        self.take(end + delimiter.len_utf8());
        let is_flag = |c: char| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I' | 'm' | 'M');
        self.rest = self.rest.trim_start_matches(is_flag);
        self.ends()
    }

    /// Checks that the command ends here.
    fn ends(&mut self) -> Option<()> {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        (self.rest.is_empty() || self.rest.starts_with([';', '\n', '}', '#'])).then_some(())
    }
}
