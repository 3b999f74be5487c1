//! The problems and warnings of a configuration.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use super::model::Config;
use super::tree::At;
use crate::mask::Masker;
use hermes_loader::config_schema::RESERVED;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// No source: the default.
    Default,
    /// A file, and the place in it if it is known.
    File {
        /// The file.
        path: PathBuf,
        /// The place of the key.
        at: Option<At>,
    },
    /// A variable of the process environment.
    Env(String),
    /// A variable of the `.env` file in the home folder.
    DotEnv(String),
    /// The command line.
    CommandLine,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, at: Some(at) } => write!(f, "{}:{at}", path.display()),
            Self::File { path, at: None } => write!(f, "{}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::DotEnv(name) => write!(f, ".env {name}"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

/// A problem that prevents the start of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The source of the value.
    pub source: Source,
    /// The full key, such as `session.reset.mode`; empty for the file as a whole.
    pub key: String,
    /// The problem and the fix.
    pub sentence: String,
    /// The valid key that was probably meant.
    pub nearest: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.source)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.sentence)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

/// All problems, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Creates a list with one problem.
    pub fn one(source: Source, key: impl Into<String>, sentence: impl Into<String>) -> Self {
        Self(vec![Problem { source, key: key.into(), sentence: sentence.into(), nearest: None }])
    }

    /// Returns `value` if there is no problem.
    pub(super) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self.sorted()) }
    }

    /// Combines two lists without duplicates.
    #[must_use]
    pub fn and(mut self, more: Self) -> Self {
        self.0.extend(more.0);
        self.sorted()
    }

    /// Removes duplicates and masks the secrets of `config`.
    #[must_use]
    pub fn of(self, config: &Config) -> Self {
        let masker = Masker::new(config.secrets().iter().map(|secret| secret.expose().to_owned()));
        let mask = |problem: Problem| Problem { sentence: masker.mask(problem.sentence).into_owned(), ..problem };
        Self(self.0.into_iter().map(mask).collect()).sorted()
    }

    /// Returns the keys of `instance` that belong to its adapter and have a problem. An empty key stands for the
    /// section as a whole.
    pub(super) fn of_own(&self, instance: &str) -> BTreeSet<&str> {
        let section = format!("adapter.{instance}");
        let own = self.0.iter().filter_map(|problem| match problem.key.strip_prefix(&section)? {
            "" => Some(""),
            rest => {
                let key = rest.strip_prefix('.')?.split(['.', '[']).next().unwrap_or_default();
                (!RESERVED.contains(&key)).then_some(key)
            }
        });
        own.collect()
    }

    /// Returns `true` if a file as a whole has a problem, so that its content is unknown.
    pub fn hide_others(&self) -> bool {
        self.0.iter().any(|problem| problem.key.is_empty() && matches!(problem.source, Source::File { .. }))
    }

    pub(super) fn push(&mut self, source: Source, key: impl Into<String>, sentence: impl Into<String>) {
        self.0.push(Problem { source, key: key.into(), sentence: sentence.into(), nearest: None });
    }

    fn sorted(mut self) -> Self {
        self.0.sort_by_key(|problem| match &problem.source {
            Source::File { path, at } => (0, path.clone(), at.unwrap_or_default()),
            _ => (1, PathBuf::new(), At::default()),
        });
        self.0.dedup();
        self
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A warning for the operator, with which the host still starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The source of the value.
    pub source: Source,
    /// The full key; empty if the source is enough.
    pub key: String,
    /// The problem and the fix.
    pub sentence: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.source)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.sentence)
    }
}
