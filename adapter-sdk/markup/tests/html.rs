//! HTML for a page: its elements, and its safety for every input.

use hermes_markup::{MARKDOWN_BYTES_MAX, html, plain};
use proptest::prelude::*;

/// Every tag that a page may receive, except links and the starts of lists.
const TAGS: &str = r#"p|br|hr|h2|h3|h4|h5|h6|blockquote|ul|ol|li|li class="task"|input type="checkbox" disabled|
input type="checkbox" disabled checked|div class="table"|table|thead|tbody|tr|th|th class="center"|th class="right"|
td|td class="center"|td class="right"|figure|figcaption|pre tabindex="0"|strong|em|del|u|code|
span class="spoiler" tabindex="0""#;

/// Elements without a closing tag.
const VOID: &[&str] = &["br", "hr", "input"];

/// Checks that `html` contains only known tags with known attributes, closed in order, and only escaped text. Returns
/// the text.
fn check(html: &str) -> Result<String, String> {
    let (mut open, mut text, mut rest) = (Vec::new(), String::new(), html);
    while let Some(at) = rest.find(['<', '>', '&', '"', '\'']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(end) = rest.strip_prefix('&').and_then(|entity| entity.find(';')) {
            text.push(match &rest[..end + 2] {
                "&amp;" => '&',
                "&lt;" => '<',
                "&gt;" => '>',
                "&quot;" => '"',
                "&#39;" => '\'',
                entity => return Err(format!("{entity} in {html}")),
            });
            rest = &rest[end + 2..];
            continue;
        }
        let tag =
            rest.strip_prefix('<').and_then(|tag| tag.split_once('>')).ok_or_else(|| format!("unescaped in {html}"))?;
        rest = tag.1;
        let name = tag.0.split(' ').next().unwrap_or_default();
        if let Some(name) = name.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes another element in {html}"));
            }
        } else if is_known(tag.0) {
            open.extend(Some(name).filter(|name| !VOID.contains(name)));
        } else {
            return Err(format!("<{}> in {html}", tag.0));
        }
    }
    if !open.is_empty() {
        return Err(format!("{open:?} open at the end of {html}"));
    }
    text.push_str(rest);
    Ok(text)
}

fn is_known(tag: &str) -> bool {
    let number = tag.strip_prefix("ol start=\"").and_then(|rest| rest.strip_suffix('"'));
    let address = tag
        .strip_prefix("a href=\"")
        .and_then(|rest| rest.strip_suffix("\" target=\"_blank\" rel=\"noopener noreferrer\""));
    TAGS.split('|').any(|known| known.trim() == tag)
        || number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        || address.is_some_and(|address| {
            let lower = address.to_ascii_lowercase();
            let is_allowed = ["http://", "https://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme));
            is_allowed && !address.contains(['"', '\'', '<']) && !address.contains(char::is_whitespace)
        })
}

#[test]
fn a_page_gets_whole_elements() {
    for (markdown, expected) in [
        ("a\nb\n\nc  \nd", "<p>a<br>b</p><p>c<br>d</p>"),
        ("# One *a*\n###### Six", "<h2>One <em>a</em></h2><h6>Six</h6>"),
        (
            "**a** ~~b~~ <u>c</u> `d<e>` ||f||",
            "<p><strong>a</strong> <del>b</del> <u>c</u> <code>d&lt;e&gt;</code> <span class=\"spoiler\" tabindex=\"0\">f</span></p>",
        ),
        ("> a\n>\n> b\n\n***", "<blockquote><p>a</p><p>b</p></blockquote><hr>"),
        ("- a\n- b\n  1. c\n  2. d\n\ne", "<ul><li>a</li><li>b<ol><li>c</li><li>d</li></ol></li></ul><p>e</p>"),
        ("3. a\n\n   b\n4. c", "<ol start=\"3\"><li>a<p>b</p></li><li>c</li></ol>"),
        ("- a\n\n* b\n\n1. c", "<ul><li>a</li></ul><ul><li>b</li></ul><ol><li>c</li></ol>"),
        (
            "- [x] a\n- [ ] b",
            "<ul><li class=\"task\"><input type=\"checkbox\" disabled checked>a</li><li class=\"task\"><input type=\"checkbox\" disabled>b</li></ul>",
        ),
        ("- > a", "<ul><li><blockquote><p>a</p></blockquote></li></ul>"),
        (
            "```rust\nlet a = \"<b>\";\n\nc\n```",
            "<figure><figcaption>rust</figcaption><pre tabindex=\"0\"><code>let a = &quot;&lt;b&gt;&quot;;\n\nc</code></pre></figure>",
        ),
        ("    a", "<figure><figcaption>text</figcaption><pre tabindex=\"0\"><code>a</code></pre></figure>"),
        (
            "| a | b |\n|:-:|--:|\n| `c` | d |",
            "<div class=\"table\"><table><thead><tr><th class=\"center\">a</th><th class=\"right\">b</th></tr></thead><tbody><tr><td class=\"center\"><code>c</code></td><td class=\"right\">d</td></tr></tbody></table></div>",
        ),
        ("| a |\n|---|", "<div class=\"table\"><table><thead><tr><th>a</th></tr></thead></table></div>"),
        ("", ""),
    ] {
        assert_eq!(html(markdown), expected, "{markdown:?}");
        check(expected).unwrap();
    }
}

#[test]
fn web_addresses_become_links_and_other_addresses_stay_text() {
    let link =
        |url: &str, text: &str| format!("<a href=\"{url}\" target=\"_blank\" rel=\"noopener noreferrer\">{text}</a>");
    let address = |url: &str| link(url, url);
    for (markdown, expected) in [
        ("[a *b*](https://x.y/?a=1&b='2')", link("https://x.y/?a=1&amp;b=&#39;2&#39;", "a <em>b</em>")),
        (
            "<mailto:a@b.c> ![d](HTTP://e.f/g.png)",
            link("mailto:a@b.c", "mailto:a@b.c") + " " + &link("HTTP://e.f/g.png", "d"),
        ),
        (
            "see https://a.b/c_d_e, (http://f.g/h(i)).",
            format!("see {}, ({}).", address("https://a.b/c_d_e"), address("http://f.g/h(i)")),
        ),
        ("[https://a.b](https://c.d) `https://e.f`", link("https://c.d", "https://a.b") + " <code>https://e.f</code>"),
        ("http:// xhttps://a.b https:c", "http:// xhttps://a.b https:c".to_owned()),
        (
            "[a](/b) [c](#d) [e](ftp://f) [g](http:/h) [i](//j.k)",
            "a (/b) c (#d) e (ftp://f) g (http:/h) i (//j.k)".to_owned(),
        ),
    ] {
        assert_eq!(html(markdown), format!("<p>{expected}</p>"), "{markdown:?}");
    }
}

#[test]
fn hostile_input_is_text() {
    for markdown in [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "a <svg/onload=alert(1)> <iframe srcdoc='<script>'>",
        "<u onclick=alert(1)>a</u> <a href=\"javascript:alert(1)\">b</a>",
        "<style>*{}</style>\n\n<!-- a --> <?b?> <![CDATA[c]]>",
        "&lt;script&gt; &#60;script&#62; &#x3c;img src=x onerror=alert(1)&#x3e;",
        "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](&#106;avascript:alert(1))",
        "[a](<java\tscript:alert(1)>) [b](data:text/html;base64,PHNjcmlwdD4=) [c](vbscript:a)",
        "<javascript:alert(1)> ![a](javascript:alert(1)) ![b](data:image/svg+xml,a)",
        "[a](https://b.c/\"onmouseover=\"alert(1)) [d](https://e.f/'x=\"<g>)",
        "https://a.b/\"onmouseover=\"alert(1) https://a.b/'><script>",
        "[a]: javascript:alert(1)\n\n[a] [b][a]",
        "```\"><script>alert(1)</script>\n\"><script>\n```",
        "``` <b>onload=a\nc\n```",
        "| <script> | \"b' |\n|---|:-:|\n| <img src=x onerror=a> | [c](javascript:d) |",
        "# <script>\n\n> <script>\n\n- <script>\n\n1. <script>",
        "**<script>** *<b onload=a>* ~~<c>~~ ||<script>||",
        "[<script>](https://a.b) [![a](javascript:b)](https://c.d)",
        "<tg-spoiler style=a>b</tg-spoiler> </p></div></body>",
    ] {
        let page = html(markdown);
        let text = check(&page).unwrap();
        assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("href=\"javascript"), "{page}");
        assert!(!text.trim().is_empty(), "{markdown:?} is lost");
    }
}

#[test]
fn the_beginning_of_a_text_is_a_whole_page() {
    let showcase = "## A **b** *c*\n\n1. d\n   - `e`\n   - ~~f~~ ||g||\n\n| h | i |\n|:--|--:|\n| j | **k** |\n\n```py\nl = \"<m>\"\n```\n\n> n [o](https://p.q/r) <u>s</u>\n\n- [x] t\n\n---\n\nhttps://u.v/w";
    for (end, _) in showcase.char_indices() {
        check(&html(&showcase[..end])).unwrap();
    }
    assert_eq!(
        html("a\n```js\nlet b = \"</script>\";"),
        "<p>a</p><figure><figcaption>js</figcaption><pre tabindex=\"0\"><code>let b = &quot;&lt;/script&gt;&quot;;</code></pre></figure>"
    );
    assert_eq!(
        html("**a *b [c](https://d"),
        "<p>**a *b [c](<a href=\"https://d\" target=\"_blank\" rel=\"noopener noreferrer\">https://d</a></p>"
    );
}

#[test]
fn no_text_is_too_long_or_too_deep() {
    for (piece, times) in [
        ("> ", 3000),
        ("- ", 3000),
        ("1. a\n  ", 3000),
        ("*a ", 8000),
        ("**a *b ", 5000),
        ("_a_", 8000),
        ("~~a", 8000),
        ("[", 20_000),
        ("![[", 8000),
        ("[a](", 8000),
        ("[a](https://b.c) ", 8000),
        ("`", 20_000),
        ("` `` ", 5000),
        ("<u>", 8000),
        ("||a", 8000),
        ("|", 20_000),
        ("| a ", 4000),
        ("a\n", 20_000),
        ("&#99999999;", 4000),
        ("\\", 20_000),
        ("https://a.b/", 4000),
        ("https://a.b/) ", 4000),
        ("http://", 20_000),
        (")", 100_000),
        ("```\n", 5000),
        ("<script>", 8000),
        ("\"'", 20_000),
    ] {
        for text in [piece.repeat(times), format!("https://a.b/{}", piece.repeat(times))] {
            let letters = |text: &str| text.matches(['a', 'p']).count();
            let shown = check(&html(&text)).unwrap();
            // The plain text also shows the addresses of links.
            let hidden = text.matches("](https:").count();
            assert!(letters(&shown) + hidden >= letters(&plain(&text)), "{piece:?} lost its words");
        }
    }
    let huge = "<b>\"a\n".repeat(MARKDOWN_BYTES_MAX / 6 + 1);
    assert_eq!(check(&html(&huge)).unwrap(), "<b>\"a".repeat(MARKDOWN_BYTES_MAX / 6 + 1));
}

/// Markdown, HTML and letters.
const PIECES: &[&str] = &[
    "*",
    "**",
    "_",
    "~~",
    "`",
    "```",
    "~~~",
    "```rust\n",
    "\n",
    "\n\n",
    "    ",
    "\t",
    " ",
    "# ",
    "> ",
    "- ",
    "+ ",
    "1. ",
    "9999. ",
    "- [x] ",
    "[",
    "](",
    ")",
    "![",
    "<",
    ">",
    "&",
    "&amp;",
    "&#60;",
    "\"",
    "'",
    "=",
    "<u>",
    "</u>",
    "<br>",
    "<b>",
    "</p>",
    "<!--",
    "-->",
    "||",
    "|",
    "|---|",
    "\\",
    "---\n",
    "***\n",
    "word",
    "😀",
    "漢字",
    "\0",
    "\r\n",
    "http://",
    "<img src=x onerror=a>",
    "](https://a.b/c?d=\"e\"&f)",
    "](javascript:a)",
    "| a | b |\n|---|:-:|\n",
    "<tg-spoiler>",
    "[a]: javascript:b\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_page_is_safe_and_complete(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..120)) {
        let text = pieces.concat();
        let page = html(&text);
        check(&page).map_err(TestCaseError::fail)?;
        prop_assert!(!page.is_empty() || plain(&text).trim().is_empty(), "{text:?} is lost");
    }

    #[test]
    fn every_text_of_any_characters_is_safe(text in any::<String>()) {
        check(&html(&text)).map_err(TestCaseError::fail)?;
    }
}
