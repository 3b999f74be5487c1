//! What is tried, and what has to hold for every input.

mod chat;
mod files;
mod shell;
mod text;
mod wire;

/// Tries one input; panics where something does not hold.
pub type Try = Box<dyn Fn(&[u8])>;

/// One door through which bytes come in.
pub struct Target {
    /// A word without dashes.
    pub name: &'static str,
    /// Inputs to begin with; never empty.
    pub seeds: Vec<Vec<u8>>,
    /// Words that the grammar knows.
    pub words: &'static [&'static str],
    /// Opens the door, which may take its time.
    pub open: Box<dyn Fn() -> Try>,
}

impl Target {
    /// A door that is always open.
    fn new(name: &'static str, seeds: Vec<Vec<u8>>, words: &'static [&'static str], run: fn(&[u8])) -> Self {
        Self::opened(name, seeds, words, move || Box::new(run))
    }

    /// A door that has to be opened first.
    fn opened(
        name: &'static str,
        seeds: Vec<Vec<u8>>,
        words: &'static [&'static str],
        open: impl Fn() -> Try + 'static,
    ) -> Self {
        assert!(!seeds.is_empty() && !name.contains('-'), "{name}");
        Self { name, seeds, words, open: Box::new(open) }
    }
}

/// All of them.
pub fn all() -> Vec<Target> {
    vec![
        wire::payloads(),
        wire::frames(),
        wire::control(),
        wire::events(),
        wire::completions(),
        files::library(),
        files::configuration(),
        text::markup(),
        text::command(),
        text::mask(),
        chat::key(),
        chat::telegram(),
        shell::shell(),
    ]
}

fn texts(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}
