//! The table of harmless programs, and the comparison of options with it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The table from `programs.txt`.
static TABLE: LazyLock<BTreeMap<&'static str, ProgramSpec>> = LazyLock::new(|| read(include_str!("programs.txt")));

/// Words of the longest name in the table.
const NAME_WORDS_MAX: usize = 3;

/// The permitted arguments of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct ProgramSpec {
    /// Permits every option except `denied`.
    pub any: bool,
    /// Denied options.
    pub denied: Vec<&'static str>,
    /// Permitted options and their values.
    options: Vec<(&'static str, Value)>,
    /// True if options begin with one dash and are compared as a whole.
    whole: bool,
    /// True if a number may be an option.
    numbers: bool,
    /// Kind of the arguments that are not options.
    pub operands: &'static str,
}

/// Kind of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// No value.
    No,
    /// An optional text, attached to the option.
    Maybe,
    /// A text.
    Text,
    /// A file that is read.
    Read,
    /// A file that is written.
    Write,
}

/// The result of comparing an argument with a [`ProgramSpec`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arg<'a> {
    /// A permitted option, without a value or with a harmless one.
    Option(&'a str),
    /// A value that names a file.
    File(String, Value),
    /// A value that may name a file; only for programs that read.
    Perhaps(String),
    /// A denied option.
    Denied,
}

/// Returns the entry of a program and the number of words of its name.
pub(super) fn find(words: &[&str]) -> Option<(&'static ProgramSpec, usize)> {
    let counts = (1..=NAME_WORDS_MAX.min(words.len())).rev();
    counts.into_iter().find_map(|count| Some((TABLE.get(words[..count].join(" ").as_str())?, count)))
}

fn read(text: &'static str) -> BTreeMap<&'static str, ProgramSpec> {
    let mut table = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        // An empty column has no options.
        let columns: Vec<&str> = line.split(" : ").collect();
        let (names, options, operands) = match (&columns[..], line.split_once(" : : ")) {
            ([names, options, operands], _) => (*names, *options, *operands),
            (_, Some((names, operands))) => (names, "", operands),
            _ => (line, "", "none"),
        };
        let spec = spec(options, operands.trim());
        for name in names.split(',') {
            table.insert(name.trim(), spec.clone());
        }
    }
    table
}

fn spec(options: &'static str, operands: &'static str) -> ProgramSpec {
    let mut spec =
        ProgramSpec { operands, whole: options.split_whitespace().any(|token| token == "~"), ..ProgramSpec::default() };
    for token in options.split_whitespace() {
        match token {
            "*" => spec.any = true,
            "~" => {}
            "-#" => spec.numbers = true,
            _ => match token.strip_prefix('!') {
                Some(denied) => spec.denied.push(denied),
                None => add(&mut spec, token),
            },
        }
    }
    spec
}

fn add(spec: &mut ProgramSpec, token: &'static str) {
    let cut = &token[..token.len() - 1];
    let (name, value) = match token.chars().last() {
        Some('=') => (cut, Value::Text),
        Some('<') => (cut, Value::Read),
        Some('>') => (cut, Value::Write),
        Some('?') => (cut, Value::Maybe),
        _ => (token, Value::No),
    };
    match name.strip_prefix('-').filter(|letters| !letters.starts_with('-') && !spec.whole) {
        Some(letters) => {
            // A bundle of letters; a value belongs to the last one.
            for (at, letter) in letters.char_indices() {
                let end = at + letter.len_utf8();
                let own = if end == letters.len() { value } else { Value::No };
                spec.options.push((&letters[at..end], own));
            }
        }
        None => spec.options.push((name, value)),
    }
}

impl ProgramSpec {
    fn value(&self, name: &str) -> Option<Value> {
        self.options.iter().find(|(option, _)| *option == name).map(|(_, value)| *value)
    }

    fn denies(&self, option: &str) -> bool {
        let name = option.split('=').next().unwrap_or_default();
        self.denied.iter().any(|denied| match denied.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
            Some(letter) if letter.len() == 1 => !name.starts_with("--") && name[1..].contains(letter),
            _ => name == *denied || name.len() > 3 && name.starts_with("--") && denied.starts_with(name),
        })
    }

    /// Compares an option with the entry. `next` is the argument after it. The second result is true if `next`
    /// was used.
    pub(super) fn option<'a>(&self, option: &'a str, next: Option<&str>) -> (Vec<Arg<'a>>, bool) {
        if self.numbers && option[1..].chars().all(|c| c.is_ascii_digit()) {
            return (vec![Arg::Option(option)], false);
        }
        if self.any {
            if self.denies(option) {
                return (vec![Arg::Denied], false);
            }
            let value = option.split_once('=').map(|(_, value)| value);
            let joined = (!option.starts_with("--")).then(|| option.get(2..)).flatten();
            let perhaps = [value, joined].into_iter().flatten().filter(|text| text.contains(['/', '.', '~']));
            return (perhaps.map(|text| Arg::Perhaps(text.to_owned())).collect(), false);
        }
        if !option.starts_with("--") && !self.whole {
            return self.bundle(option, next);
        }
        // The table may list an option together with its value.
        if self.value(option) == Some(Value::No) {
            return (vec![Arg::Option(option)], false);
        }
        let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let file = |value: &str, kind| vec![Arg::Option(name), Arg::File(value.to_owned(), kind)];
        match (self.value(name), value) {
            (None, _) | (Some(Value::No), Some(_)) => (vec![Arg::Denied], false),
            (Some(Value::No | Value::Maybe), _) | (Some(Value::Text), Some(_)) => (vec![Arg::Option(name)], false),
            (Some(Value::Text), None) => (vec![Arg::Option(name)], true),
            (Some(kind), Some(value)) => (file(value, kind), false),
            (Some(kind), None) => (file(next.unwrap_or_default(), kind), true),
        }
    }

    fn bundle<'a>(&self, option: &'a str, next: Option<&str>) -> (Vec<Arg<'a>>, bool) {
        let mut args = Vec::new();
        for (at, letter) in option.char_indices().skip(1) {
            let end = at + letter.len_utf8();
            let Some(kind) = self.value(&option[at..end]) else { return (vec![Arg::Denied], false) };
            args.push(Arg::Option(&option[at..end]));
            match kind {
                Value::No => {}
                Value::Maybe => break,
                kind => {
                    let rest = &option[end..];
                    let value = if rest.is_empty() { next.unwrap_or_default() } else { rest };
                    if kind != Value::Text {
                        args.push(Arg::File(value.to_owned(), kind));
                    }
                    return (args, rest.is_empty());
                }
            }
        }
        (args, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_can_be_read() {
        const OPERANDS: [&str; 11] =
            ["none", "text", "name", "read", "write", "copy", "one", "pattern", "local", "inside", "same"];
        for (name, spec) in TABLE.iter() {
            assert!(OPERANDS.contains(&spec.operands), "{name}: {:?}", spec.operands);
            assert!(name.split(' ').count() <= NAME_WORDS_MAX, "{name}");
            assert!(spec.any || spec.denied.is_empty(), "{name}");
        }
        let (sort, words) = find(&["sort", "-o"]).unwrap();
        assert_eq!((words, sort.option("-rk2", None)), (1, (vec![Arg::Option("r"), Arg::Option("k")], false)));
        assert_eq!(sort.option("-o", Some("x")).0, [Arg::Denied]);
        assert_eq!(sort.option("--compress-prog=x", None).0, [Arg::Denied]);
        let (rg, _) = find(&["rg"]).unwrap();
        assert_eq!(rg.option("--pre=x", None).0, [Arg::Denied]);
    }
}
