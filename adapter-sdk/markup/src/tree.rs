//! The words of a parsed text.
//!
//! A tree is kept as the flat list of its opens, closes and leaves. That form has
//! no depth to recurse into, and a cut is an index into it.

/// A parsed text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub(crate) nodes: Vec<Node>,
}

impl Tree {
    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// One step through a tree. Every `Open` has its `Close`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A frame begins.
    Open(Frame),
    /// A frame begins that has no room for its marks in the rendered text; only after lowering.
    Quiet(Frame),
    /// The innermost frame ends.
    Close,
    /// Text without line breaks.
    Text(String),
    /// The next line of the same block.
    Line {
        /// Whether the author asked for the break.
        hard: bool,
        /// Whether a part may end here.
        cut: bool,
    },
    /// The next block.
    Gap {
        /// Whether an empty line stands between the two.
        blank: bool,
    },
    /// A line across the text.
    Rule,
    /// A whole table; gone after lowering for a renderer.
    Table(Table),
    /// One line of a table, in both writings; only after lowering.
    Row {
        /// Aligned with spaces.
        source: String,
        /// In the dialect.
        rendered: String,
    },
}

/// Something that is open over a stretch of text.
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
    /// Hidden until asked for.
    Spoiler,
    /// Code within a line.
    Code {
        /// The longest run of backticks in it.
        ticks: usize,
    },
    /// A link.
    Link {
        /// Where to.
        url: String,
        /// Whether its text is the address itself.
        bare: bool,
    },
    /// A picture, shown as a link.
    Image {
        /// Where it is.
        url: String,
    },
    /// A heading of this level, 1 to 6.
    Heading(u8),
    /// A quotation.
    Quote,
    /// One item of a list.
    Item {
        /// What stands before it.
        marker: Marker,
        /// The tick box of a task.
        task: Option<bool>,
        /// Whether its later lines are indented; false where nesting went too deep.
        indents: bool,
    },
    /// A block of code.
    CodeBlock {
        /// Its language; empty: none.
        language: String,
        /// The longest run of backticks in it.
        ticks: usize,
        /// The longest run of tildes in it.
        tildes: usize,
    },
    /// A table that the dialect can write.
    Table {
        /// What stands again above the rows of a later part: the header and its rule.
        header: String,
    },
}

/// What stands before an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A bullet; the other kind where two lists follow each other.
    Bullet {
        /// Whether to use the other kind.
        other: bool,
    },
    /// A number.
    Number {
        /// The number; within another list or quote at most 9999.
        number: u64,
        /// Whether to write `)` where two lists follow each other.
        other: bool,
    },
}

/// A table as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Align>,
    /// The header first; a cell is inline nodes.
    pub(crate) rows: Vec<Vec<Vec<Node>>>,
}

/// On which side the text of a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    None,
    Left,
    Center,
    Right,
}
