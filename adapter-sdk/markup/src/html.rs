//! HTML for a web page that inserts it into its document.
//!
//! A page shows whole elements (paragraphs, lists, tables) and has no limit, so this dialect writes the tree itself
//! instead of parts. Three rules hold for every input:
//!
//! * Every character of the input is escaped. No tag and no attribute of the input is copied.
//! * An address is the only attribute value that comes from the input, and it begins with `http://`, `https://` or
//!   `mailto:`. Any other address is text.
//! * Every element is closed, whatever is open at the end of the input, so a page can show the beginning of a text
//!   while the rest arrives.

use crate::parse::parse;
use crate::tree::{Align, Frame, Marker, Node, Table};

/// Renders `markdown` as HTML for a web page.
///
/// The elements are `p`, `br`, `hr`, `h2` to `h6` (the page itself has the `h1`), `blockquote`, `ul`, `ol`, `li`,
/// `table` within a `div`, `figure` with `figcaption` and `pre` for a block of code, `strong`, `em`, `del`, `u`,
/// `code`, `a`, and `span class="spoiler"`. An image becomes a link. A bare web address becomes a link.
///
/// ```
/// use hermes_markup::html;
///
/// assert_eq!(html("**a** <b>"), "<p><strong>a</strong> &lt;b&gt;</p>");
/// assert_eq!(html("[a](javascript:b)"), "<p>a (javascript:b)</p>");
/// ```
pub fn html(markdown: &str) -> String {
    let mut writer = HtmlWriter { containers: vec![HtmlBlock::default()], ..HtmlWriter::default() };
    for node in &parse(markdown).nodes {
        writer.node(node);
    }
    writer.end_blocks();
    writer.out
}

/// A block that contains blocks: the document, a quote, or an item.
#[derive(Default)]
struct HtmlBlock {
    /// The closing tag.
    closer: &'static str,
    /// The list that is open in it.
    list: Option<HtmlList>,
    is_item: bool,
    /// True if it contains a block already.
    begun: bool,
}

/// The properties of a list from which the following list differs.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HtmlList {
    is_numbered: bool,
    other: bool,
}

/// The end of an open frame.
enum FrameEnd {
    Block,
    /// The paragraph, heading or block of code that is open.
    Paragraph,
    /// This text.
    Text(String),
}

#[derive(Default)]
struct HtmlWriter {
    out: String,
    containers: Vec<HtmlBlock>,
    /// The ends of the open frames. `true`: addresses in the frame are no links.
    frames: Vec<(FrameEnd, bool)>,
    /// The closing tag of the open paragraph, heading or block of code.
    paragraph: Option<&'static str>,
    /// True in a block of code.
    pre: bool,
}

impl HtmlWriter {
    fn node(&mut self, node: &Node) {
        match node {
            Node::Open(frame) | Node::Quiet(frame) => self.open(frame),
            Node::Close => self.close(),
            Node::Text(text) => self.text(text),
            Node::Line { .. } if self.pre => self.out.push('\n'),
            Node::Line { .. } => {
                self.begin_paragraph();
                self.out.push_str("<br>");
            }
            Node::Gap { .. } => self.end_paragraph(),
            Node::Rule => {
                self.begin_block();
                self.out.push_str("<hr>");
            }
            Node::Table(table) => self.table(table),
            // The tree of a parsed text has none; see `lower`.
            Node::Row { source, .. } => self.text(source),
        }
    }

    fn open(&mut self, frame: &Frame) {
        let (opener, closer) = match frame {
            Frame::Quote => return self.open_container("<blockquote>", "</blockquote>", None),
            Frame::Item { marker, task, .. } => return self.open_item(*marker, *task),
            Frame::Heading(level) => return self.open_heading(*level),
            Frame::CodeBlock { language, .. } => return self.open_code(language),
            Frame::Link { url, bare } => return self.open_link(url, *bare),
            Frame::Image { url } => return self.open_link(url, false),
            Frame::Strong => ("<strong>", "</strong>"),
            Frame::Emphasis => ("<em>", "</em>"),
            Frame::Strike => ("<del>", "</del>"),
            Frame::Underline => ("<u>", "</u>"),
            Frame::Spoiler => ("<span class=\"spoiler\" tabindex=\"0\">", "</span>"),
            Frame::Code { .. } => ("<code>", "</code>"),
            Frame::Table { .. } => ("", ""),
        };
        self.begin_paragraph();
        self.out.push_str(opener);
        self.frames.push((FrameEnd::Text(closer.to_owned()), matches!(frame, Frame::Code { .. })));
    }

    fn open_container(&mut self, opener: &str, closer: &'static str, list: Option<HtmlList>) {
        match list {
            None => self.begin_block(),
            Some(_) => self.container().begun = true,
        }
        self.out.push_str(opener);
        self.containers.push(HtmlBlock { closer, is_item: list.is_some(), ..HtmlBlock::default() });
        self.frames.push((FrameEnd::Block, false));
    }

    fn open_item(&mut self, marker: Marker, task: Option<bool>) {
        self.end_paragraph();
        let (number, list) = match marker {
            Marker::Bullet { other } => (None, HtmlList { is_numbered: false, other }),
            Marker::Number { number, other } => (Some(number), HtmlList { is_numbered: true, other }),
        };
        if self.container().list != Some(list) {
            self.end_list();
            self.container().list = Some(list);
            match number {
                None => self.out.push_str("<ul>"),
                Some(1) => self.out.push_str("<ol>"),
                Some(number) => self.out.push_str(&format!("<ol start=\"{number}\">")),
            }
        }
        let opener = match task {
            None => "<li>",
            Some(false) => "<li class=\"task\"><input type=\"checkbox\" disabled>",
            Some(true) => "<li class=\"task\"><input type=\"checkbox\" disabled checked>",
        };
        self.open_container(opener, "</li>", Some(list));
    }

    fn open_heading(&mut self, level: u8) {
        let (opener, closer) = match level {
            1 => ("<h2>", "</h2>"),
            2 => ("<h3>", "</h3>"),
            3 => ("<h4>", "</h4>"),
            4 => ("<h5>", "</h5>"),
            _ => ("<h6>", "</h6>"),
        };
        self.begin_block();
        self.out.push_str(opener);
        self.paragraph = Some(closer);
        self.frames.push((FrameEnd::Paragraph, false));
    }

    fn open_code(&mut self, language: &str) {
        self.begin_block();
        self.out.push_str("<figure><figcaption>");
        escape(&mut self.out, if language.is_empty() { "text" } else { language });
        self.out.push_str("</figcaption><pre tabindex=\"0\"><code>");
        self.paragraph = Some("</code></pre></figure>");
        self.pre = true;
        self.frames.push((FrameEnd::Paragraph, true));
    }

    fn open_link(&mut self, url: &str, bare: bool) {
        self.begin_paragraph();
        let mut closer = String::new();
        if is_page_address(url) {
            self.begin_anchor(url);
            closer.push_str("</a>");
        } else if !bare {
            escape(&mut closer, &format!(" ({url})"));
        }
        self.frames.push((FrameEnd::Text(closer), true));
    }

    fn begin_anchor(&mut self, url: &str) {
        self.out.push_str("<a href=\"");
        escape(&mut self.out, url);
        self.out.push_str("\" target=\"_blank\" rel=\"noopener noreferrer\">");
    }

    fn close(&mut self) {
        match self.frames.pop() {
            Some((FrameEnd::Text(closer), _)) => self.out.push_str(&closer),
            Some((FrameEnd::Paragraph, _)) => self.end_paragraph(),
            Some((FrameEnd::Block, _)) => {
                self.end_blocks();
                let closer = self.containers.pop().map(|container| container.closer);
                self.out.push_str(closer.unwrap_or_default());
            }
            None => {}
        }
    }

    fn table(&mut self, table: &Table) {
        self.begin_block();
        self.out.push_str("<div class=\"table\"><table><thead>");
        for (n, row) in table.rows.iter().enumerate() {
            self.out.push_str(if n == 1 { "</thead><tbody><tr>" } else { "<tr>" });
            for (cell, align) in row.iter().zip(&table.columns) {
                let name = if n == 0 { "th" } else { "td" };
                let class = match align {
                    Align::None | Align::Left => "",
                    Align::Center => " class=\"center\"",
                    Align::Right => " class=\"right\"",
                };
                self.out.push_str(&format!("<{name}{class}>"));
                // A cell has no paragraph of its own.
                self.paragraph = Some("");
                for node in cell {
                    self.node(node);
                }
                self.paragraph = None;
                self.out.push_str(&format!("</{name}>"));
            }
            self.out.push_str("</tr>");
        }
        self.out.push_str(if table.rows.len() > 1 { "</tbody></table></div>" } else { "</thead></table></div>" });
    }

    fn container(&mut self) -> &mut HtmlBlock {
        // The document is never closed.
        self.containers.last_mut().expect("the document is open")
    }

    /// Marks the start of a block that is no item.
    fn begin_block(&mut self) {
        self.end_blocks();
        self.container().begun = true;
    }

    /// Opens a paragraph unless one is open. The first one of an item is its text.
    fn begin_paragraph(&mut self) {
        if self.paragraph.is_some() {
            return;
        }
        let container = self.container();
        let (opener, closer) = match container.is_item && !container.begun {
            true => ("", ""),
            false => ("<p>", "</p>"),
        };
        self.begin_block();
        self.out.push_str(opener);
        self.paragraph = Some(closer);
    }

    fn end_paragraph(&mut self) {
        self.out.push_str(self.paragraph.take().unwrap_or_default());
        self.pre = false;
    }

    fn end_list(&mut self) {
        if let Some(list) = self.container().list.take() {
            self.out.push_str(if list.is_numbered { "</ol>" } else { "</ul>" });
        }
    }

    /// Closes the paragraph and the list of the container.
    fn end_blocks(&mut self) {
        self.end_paragraph();
        self.end_list();
    }

    fn text(&mut self, text: &str) {
        self.begin_paragraph();
        let mut rest = text;
        if !self.frames.iter().any(|(_, is_literal)| *is_literal) {
            while let Some((before, address, after)) = split_address(rest) {
                escape(&mut self.out, before);
                self.begin_anchor(address);
                escape(&mut self.out, address);
                self.out.push_str("</a>");
                rest = after;
            }
        }
        escape(&mut self.out, rest);
    }
}

/// Appends `text` so that a page shows it literally, in text and in attributes.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
}

/// Returns whether a page may link to `url`. `http:x` without slashes would be an address of the page itself.
fn is_page_address(url: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| {
        url.len() > scheme.len() && url.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme))
    })
}

/// Splits a text at its first web address.
fn split_address(text: &str) -> Option<(&str, &str, &str)> {
    for (at, _) in text.match_indices("http") {
        let scheme = ["http://", "https://"].into_iter().find(|scheme| text[at..].starts_with(scheme));
        let Some(scheme) = scheme.filter(|_| !text[..at].ends_with(char::is_alphanumeric)) else { continue };
        let address = address_of(&text[at..]);
        if address.len() > scheme.len() {
            return Some((&text[..at], address, &text[at + address.len()..]));
        }
    }
    None
}

/// Returns the address at the start of a text, without the punctuation of the sentence around it.
fn address_of(text: &str) -> &str {
    let end = text.find(|c: char| c.is_whitespace() || "<>\"`*|".contains(c)).unwrap_or(text.len());
    let mut address = &text[..end];
    let mut unopened = address.matches(')').count().saturating_sub(address.matches('(').count());
    while let Some(last) = address.chars().next_back() {
        match last {
            '.' | ',' | ';' | ':' | '!' | '?' | '\'' => {}
            ')' if unopened > 0 => unopened -= 1,
            _ => break,
        }
        address = &address[..address.len() - last.len_utf8()];
    }
    address
}
