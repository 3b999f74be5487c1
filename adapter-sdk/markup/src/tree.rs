//! The tree of a parsed text.
//!
//! A tree is stored as the flat list of its opens, closes and leaves. This form needs no
//! recursion, and a cut is an index into the list.

/// A parsed text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub(crate) nodes: Vec<Node>,
}

impl Tree {
    /// Returns whether the text shows nothing.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// One step through a tree. Every `Open` has its `Close`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// The start of a frame.
    Open(Frame),
    /// The start of a frame that has no room for its marks in the rendered text. Only after lowering.
    Quiet(Frame),
    /// The end of the innermost frame.
    Close,
    /// Text without line breaks.
    Text(String),
    /// A line break inside a block.
    Line {
        /// True if the author wrote the break explicitly.
        hard: bool,
        /// True if a part may end here.
        cut: bool,
    },
    /// The start of the next block.
    Gap {
        /// True if an empty line separates the two blocks.
        blank: bool,
    },
    /// A horizontal rule.
    Rule,
    /// A whole table; removed by lowering for a renderer.
    Table(Table),
    /// One line of a table, in both forms. Only after lowering.
    Row {
        /// The line aligned with spaces.
        source: String,
        /// The line in the dialect.
        rendered: String,
    },
}

/// Formatting or structure around a stretch of text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame {
    /// Bold.
    Strong,
    /// Italic.
    Emphasis,
    /// Struck through.
    Strike,
    /// Underlined.
    Underline,
    /// Hidden until the reader reveals it.
    Spoiler,
    /// Inline code.
    Code {
        /// The length of the longest run of backticks in it.
        ticks: usize,
    },
    /// A link.
    Link {
        /// The address.
        url: String,
        /// True if the link's text is the address itself.
        bare: bool,
    },
    /// An image, shown as a link.
    Image {
        /// The address.
        url: String,
    },
    /// A heading of this level, 1 to 6.
    Heading(u8),
    /// A quotation.
    Quote,
    /// One item of a list.
    Item {
        /// The bullet or number before the item.
        marker: Marker,
        /// The checkbox of a task; `Some(true)` if it is checked.
        task: Option<bool>,
        /// True if later lines are indented; false if the nesting is too deep.
        indents: bool,
    },
    /// A block of code.
    CodeBlock {
        /// The language; empty if none is given.
        language: String,
        /// The length of the longest run of backticks in it.
        ticks: usize,
        /// The length of the longest run of tildes in it.
        tildes: usize,
    },
    /// A table in the dialect's own syntax.
    Table {
        /// The header and its rule, repeated above the rows of a later part.
        header: String,
    },
}

/// The bullet or number before an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A bullet. Two adjacent lists use different bullets.
    Bullet {
        /// True to use the other bullet.
        other: bool,
    },
    /// A number.
    Number {
        /// The number; at most 9999 within another list or quote.
        number: u64,
        /// True to write `)` instead of `.`, because two lists follow each other.
        other: bool,
    },
}

/// A table as the author wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Align>,
    /// The rows, the header first; a cell is a list of inline nodes.
    pub(crate) rows: Vec<Vec<Vec<Node>>>,
}

/// The alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    None,
    Left,
    Center,
    Right,
}
