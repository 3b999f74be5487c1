//! Progress display of tools: a few short lines in one message that the host edits during the turn.

use std::collections::VecDeque;

use crate::settings::ProgressMode;

/// Lines shown at once; earlier ones are only counted.
const LINES_MAX: usize = 12;

/// Characters of a tool's arguments in the short form.
const PREVIEW_CHARS: usize = 40;

/// Characters of a tool's arguments in the verbose form.
const FULL_CHARS: usize = 400;

/// The tools of one turn, as shown in the chat.
#[derive(Clone, Debug)]
pub struct Progress {
    mode: ProgressMode,
    lines: VecDeque<(String, u32)>,
    earlier: usize,
    last: Option<String>,
}

impl Progress {
    /// Creates an empty display.
    pub fn new(mode: ProgressMode) -> Self {
        Self { mode, lines: VecDeque::new(), earlier: 0, last: None }
    }

    /// Records the use of a tool. Returns true if the display changed.
    pub fn used(&mut self, tool: &str, with: &str) -> bool {
        let chars_max = match self.mode {
            ProgressMode::Off | ProgressMode::Log => return false,
            ProgressMode::New if self.last.as_deref() == Some(tool) => return false,
            ProgressMode::New | ProgressMode::All => PREVIEW_CHARS,
            ProgressMode::Verbose => FULL_CHARS,
        };
        self.last = Some(tool.to_owned());
        let line = line(tool, with, chars_max);
        match self.lines.back_mut() {
            Some((last, times)) if *last == line => *times += 1,
            _ => self.lines.push_back((line, 1)),
        }
        if self.lines.len() > LINES_MAX {
            self.lines.pop_front();
            self.earlier += 1;
        }
        true
    }

    /// Returns the lines as house markdown.
    pub fn markdown(&self) -> String {
        let earlier = (self.earlier > 0).then(|| format!("- … {} earlier", self.earlier));
        let lines = self.lines.iter().map(|(line, times)| match times {
            1 => format!("- {line}"),
            times => format!("- {line} (×{times})"),
        });
        earlier.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }
}

/// Formats one tool and its arguments on one line, as code, so that nothing in it is markup.
fn line(tool: &str, with: &str, chars_max: usize) -> String {
    let plain = |c: char| if c.is_control() || c == '`' { ' ' } else { c };
    let with: String = with.trim().chars().map(plain).collect();
    let tool: String = tool.chars().map(plain).collect();
    let short: String = with.chars().take(chars_max).collect();
    let cut = if short.len() < with.len() { "…" } else { "" };
    match short.trim() {
        "" => format!("`{tool}`"),
        short => format!("`{tool}`: `{short}{cut}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(mode: ProgressMode, used: &[(&str, &str)]) -> String {
        let mut progress = Progress::new(mode);
        for (tool, with) in used {
            progress.used(tool, with);
        }
        progress.markdown()
    }

    #[test]
    fn each_mode_shows_what_its_name_says() {
        let used = [("search", "a"), ("search", "b"), ("read", &*"x".repeat(50)), ("search", "c")];
        assert_eq!(shown(ProgressMode::Off, &used), "");
        assert_eq!(shown(ProgressMode::Log, &used), "");
        let short = "x".repeat(40);
        assert_eq!(shown(ProgressMode::New, &used), format!("- `search`: `a`\n- `read`: `{short}…`\n- `search`: `c`"));
        assert_eq!(
            shown(ProgressMode::All, &used),
            format!("- `search`: `a`\n- `search`: `b`\n- `read`: `{short}…`\n- `search`: `c`")
        );
        assert!(shown(ProgressMode::Verbose, &used).contains(&"x".repeat(50)));
    }

    #[test]
    fn the_same_again_is_counted_and_old_lines_go() {
        assert_eq!(shown(ProgressMode::All, &[("read", "a"); 3]), "- `read`: `a` (×3)");
        let mut progress = Progress::new(ProgressMode::All);
        for n in 0..100 {
            assert!(progress.used("read", &n.to_string()));
        }
        let shown = progress.markdown();
        assert_eq!(shown.lines().count(), LINES_MAX + 1);
        assert!(shown.starts_with("- … 88 earlier\n") && shown.ends_with("`99`"), "{shown}");
    }

    #[test]
    fn what_a_tool_is_used_with_is_no_markup_and_one_line() {
        assert_eq!(shown(ProgressMode::All, &[("a`b", "x`\n*y*")]), "- `a b`: `x  *y*`");
    }
}
