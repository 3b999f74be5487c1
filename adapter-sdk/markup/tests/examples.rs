//! Common texts in each dialect, and inputs that other renderers handled wrong.

use hermes_markup::{Limit, MarkupDialect, Part, Unit, measure, plain, render};

fn whole(markdown: &str, dialect: MarkupDialect) -> String {
    let parts = render(markdown, dialect, Limit::NONE);
    assert!(parts.len() <= 1, "no limit gives one part: {parts:?}");
    parts.into_iter().next().map(|part| part.text).unwrap_or_default()
}

fn telegram(markdown: &str) -> String {
    whole(markdown, MarkupDialect::Telegram)
}

fn commonmark(markdown: &str) -> String {
    whole(markdown, MarkupDialect::CommonMark)
}

fn discord(markdown: &str) -> String {
    whole(markdown, MarkupDialect::Discord)
}

fn mrkdwn(markdown: &str) -> String {
    whole(markdown, MarkupDialect::Mrkdwn)
}

fn parts(markdown: &str, dialect: MarkupDialect, max: u32, unit: Unit) -> Vec<Part> {
    let parts = render(markdown, dialect, Limit::new(max, unit));
    for part in &parts {
        assert!(measure(&part.text, unit) <= max as usize, "{part:?} is longer than {max}");
        assert!(measure(&part.source, unit) <= max as usize, "{part:?} is longer than {max}");
    }
    assert_eq!(parts.iter().map(|part| part.source.as_str()).collect::<String>(), plain(markdown));
    parts
}

#[test]
fn telegram_gets_its_html() {
    assert_eq!(
        telegram("**a** *b* ~~c~~ `d<e>` [f](https://x.y/?a=1&b=\"2\")"),
        "<b>a</b> <i>b</i> <s>c</s> <code>d&lt;e&gt;</code> <a href=\"https://x.y/?a=1&amp;b=&quot;2&quot;\">f</a>"
    );
    assert_eq!(telegram("# Title\n\ntext & <more>"), "<b>Title</b>\n\ntext &amp; &lt;more&gt;");
    assert_eq!(telegram("```rust\nfn main() {}\n```"), "<pre><code class=\"language-rust\">fn main() {}</code></pre>");
    assert_eq!(telegram("> a\n> b\n>\n> c"), "<blockquote>a\nb\n\nc</blockquote>");
    assert_eq!(telegram("<u>a</u> <tg-spoiler>b</tg-spoiler> <u>c"), "<u>a</u> <tg-spoiler>b</tg-spoiler> &lt;u&gt;c");
    assert_eq!(telegram("a<br>b"), "a\nb");
}

#[test]
fn telegram_gets_lists_with_bullets_and_tables_aligned() {
    assert_eq!(telegram("- a\n- b\n  1. c\n  2. d\n- [x] e\n- [ ] f"), "• a\n• b\n  1. c\n  2. d\n• ☑ e\n• ☐ f");
    assert_eq!(
        telegram("| name | n |\n|:--|--:|\n| a & b | 1 |\n| c | 200 |"),
        "<pre>name  |   n\n------+----\na &amp; b |   1\nc     | 200</pre>"
    );
}

#[test]
fn a_list_changes_its_markers_only_beside_another_of_its_kind() {
    assert_eq!(telegram("- a\n\n1. b\n2. c\n\n- d"), "• a\n\n1. b\n2. c\n\n• d");
    assert_eq!(discord("1. a\n\n- b\n\n1) c"), "1. a\n\n- b\n\n1. c");
    assert_eq!(telegram("1. a\n\n1) b"), "1. a\n\n1) b");
}

#[test]
fn discord_gets_its_own_markdown() {
    assert_eq!(
        discord("**a** *b* ***c*** x*y*z ~~d~~ `e*` <u>f</u> <tg-spoiler>g</tg-spoiler>"),
        "**a** _b_ _**c**_ x*y*z ~~d~~ `e*` __f__ ||g||"
    );
    assert_eq!(
        discord("# T\n\n##### deep\n\n- a\n  1. b\n- [x] c\n\n> q\n> r"),
        "# T\n\n### deep\n\n- a\n  1. b\n- ☑ c\n\n> q\n> r"
    );
    assert_eq!(
        discord("[t](https://a.b/c_d_) <https://e.f/_g_> https://h.i/_j_"),
        "[t](https://a.b/c_d_) https://e.f/_g_ https://h.i/_j_"
    );
    assert_eq!(discord("| n |\n|--:|\n| 1 |"), "```\nn\n-\n1\n```");
    assert_eq!(discord("a\\\nb\n\n***\n\nc"), "a\nb\n\n———\n\nc");
}

#[test]
fn discord_shows_what_is_no_mark_as_it_is() {
    assert_eq!(
        discord("5 \\* 3 \\# a_b \\_c\\_ \\|\\| \\[x](y) <@1> & é"),
        "5 \\* 3 # a_b \\_c\\_ \\|\\| \\[x](y) <@1> & é"
    );
    assert_eq!(discord("\\- no item\n\\> no quote\n1\\. no list"), "\\- no item\n\\> no quote\n1\\. no list");
}

#[test]
fn no_run_of_backticks_ends_code_on_discord() {
    let space = '\u{200b}';
    assert_eq!(discord("~~~~md\n```\nx\n```\n~~~~"), format!("```md\n`{space}``\nx\n`{space}``\n```"));
    assert_eq!(discord("``a`b``"), "`` a`b ``");
    assert_eq!(discord("```` a```b ````"), format!("`` a`{space}`{space}`b ``"));
}

#[test]
fn slack_gets_its_mrkdwn() {
    assert_eq!(mrkdwn("**a** *b* ***c*** ~~d~~ `e<f>` <u>g</u>"), "*a* _b_ _*c*_ ~d~ `e&lt;f&gt;` g");
    assert_eq!(mrkdwn("# A **b** c\n\ntext"), "*A b c*\n\ntext");
    assert_eq!(mrkdwn("[f *g*](https://x.y/?a=1&b=c|d)"), "<https://x.y/?a=1&amp;b=c%7Cd|f g>");
    assert_eq!(mrkdwn("**[f](https://x.y)** <https://z.a>"), "*<https://x.y|f>* <https://z.a|https://z.a>");
    assert_eq!(mrkdwn("- a\n  1. b\n- [x] c\n\n> q\n> r"), "• a\n  1. b\n• ☑ c\n\n> q\n> r");
    assert_eq!(mrkdwn("```rust\nlet a = &b;\n```"), "```\nlet a = &amp;b;\n```");
    assert_eq!(mrkdwn("| n |\n|--:|\n| 1 |\n\n***"), "```\nn\n-\n1\n```\n\n———");
}

#[test]
fn nobody_is_called_by_an_answer_on_slack() {
    for text in ["<!channel>", "&lt;!here&gt;", "<@U1>", "`<!everyone>`", "[x](!channel)", "<!subteam^S1>"] {
        assert!(!mrkdwn(text).contains('<'), "{text} became {}", mrkdwn(text));
    }
}

#[test]
fn a_mark_beside_a_letter_is_read_as_one_on_slack() {
    assert_eq!(mrkdwn("un**frigging**believable"), "un\u{200b}*frigging*\u{200b}believable");
    assert_eq!(mrkdwn("(**a**), `b`."), "(*a*), `b`.");
    assert_eq!(mrkdwn("~~~~\n```\n~~~~"), "```\n`\u{200b}`\u{200b}`\n```");
    assert_eq!(mrkdwn("``a`b``"), "a`b");
}

#[test]
fn plain_text_keeps_addresses_and_structure() {
    assert_eq!(
        plain("# T\n\n**a** [b](https://c.d) <https://e.f>\n\n> q\n\n- x\n- y\n\n***\n\n`z`"),
        "T\n\na b (https://c.d) https://e.f\n\n> q\n\n- x\n- y\n\n———\n\nz"
    );
    assert_eq!(plain("- a\n\n  b\n\n- c"), "- a\n\n  b\n\n- c");
    assert_eq!(plain("1. a\n2. b\n   > c\n   > d"), "1. a\n2. b\n   > c\n   > d");
    assert_eq!(plain("[x](javascript:alert(1)) [y](/z)"), "x (javascript:alert(1)) y (/z)");
    assert_eq!(plain("![pic](https://a.b/c.png) ![](https://d.e/f.png)"), "pic (https://a.b/c.png) https://d.e/f.png");
}

#[test]
fn commonmark_comes_out_as_it_went_in() {
    for text in [
        "# Title\n\nSome **bold *and italic* text** with `code` and [a link](https://a.b/c).",
        "- a\n- b\n  - c\n\n    d\n- e",
        "1. a\n2. b",
        "> quote\n>\n> - item\n> - item",
        "```py\ndef f():\n    return 1\n\n\nx\n```",
        "~~~\n```\n~~~",
        "| a | b |\n|---|--:|\n| `c\\|d` | **e** |",
        "a\\\nb\nc",
        "- [x] done\n- [ ] open",
        "5 \\* 3 \\# snake_case a\\_ 1. no list",
        "~~gone~~ \\~kept\\~",
        "***",
    ] {
        let once = commonmark(text);
        assert_eq!(commonmark(&once), once, "not stable: {text:?}");
        assert_eq!(plain(&once), plain(text), "changed: {text:?} -> {once:?}");
    }
    assert_eq!(
        commonmark("# Title\n\nSome **bold *and italic* text** and `code`."),
        "# Title\n\nSome **bold *and italic* text** and `code`."
    );
    assert_eq!(commonmark("> quote\n>\n> - item\n> - item"), "> quote\n>\n> - item\n> - item");
}

#[test]
fn text_that_means_something_elsewhere_is_escaped() {
    for text in [
        "\\# no heading",
        "\\- no item",
        "1\\. no item",
        "\\> no quote",
        "&amp;amp; &lt;b&gt;",
        "\\*\\*",
        "a\\_b_",
        "\\+ x",
        "\\`\\`\\`",
        "\\[a\\](b)",
        "x\n\\---",
        "\\| a \\|\n\\|---\\|",
    ] {
        assert_eq!(plain(&commonmark(text)), plain(text), "{:?}", commonmark(text));
    }
}

#[test]
fn nothing_to_show_gives_no_part() {
    for text in ["", "  \n\n", "[a]: https://b.c", "```\n\n```"] {
        assert_eq!(render(text, MarkupDialect::Telegram, Limit::new(4096, Unit::Utf16)), []);
    }
}

#[test]
fn what_fits_is_one_part_without_a_suffix() {
    let text = "x".repeat(4096);
    assert_eq!(parts(&text, MarkupDialect::Telegram, 4096, Unit::Utf16)[0].text, text);
    let parts = parts(&"x".repeat(4097), MarkupDialect::Telegram, 4096, Unit::Utf16);
    assert_eq!(parts.len(), 2);
    assert!(parts[0].text.ends_with("x (1/2)") && parts[1].text.ends_with("x (2/2)"));
}

#[test]
fn an_opening_fence_without_a_newline_is_text_and_not_a_language() {
    let text = format!("```{}", "some words that go on ".repeat(40));
    let parts = parts(&text, MarkupDialect::Telegram, 100, Unit::Utf16);
    assert!(parts.iter().all(|part| !part.text.contains("language-")));
    assert!(plain(&text).starts_with("some words that go on some words"));
    assert!(parts.iter().filter(|part| part.source.contains("some words")).count() > 5);
}

#[test]
fn only_a_fence_closes_a_fence() {
    let text = "````\na\n``` not the end\nb\n````\n\nafter";
    assert_eq!(plain(text), "a\n``` not the end\nb\n\nafter");
    assert_eq!(commonmark(text), "~~~\na\n``` not the end\nb\n~~~\n\nafter");
}

#[test]
fn each_part_of_a_code_block_has_its_fences_language_and_indentation() {
    let lines: Vec<String> = (0..60).map(|n| format!("{}line_{n}()", " ".repeat(n % 9))).collect();
    let text = format!("before\n\n```python\n{}\n```\n\nafter", lines.join("\n"));
    let parts = parts(&text, MarkupDialect::CommonMark, 200, Unit::Scalars);
    assert!(parts.len() > 3);
    let mut seen = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let suffix = format!("({}/{})", n + 1, parts.len());
        let body = part.text.strip_suffix(&suffix).expect("every part is numbered");
        assert!(body.ends_with(' ') || body.ends_with("\n\n"), "{body:?}");
        let mut inside = false;
        for line in body.lines() {
            match line {
                "```python" => inside = true,
                "```" => inside = false,
                line if inside => seen.push(line.to_owned()),
                _ => assert!(!line.contains("```"), "{line:?}"),
            }
        }
        assert!(!inside, "{part:?}");
    }
    assert_eq!(seen, lines);
}

#[test]
fn the_rendered_length_counts_not_the_written_one() {
    let parts = parts(&"\\!&<".repeat(1500), MarkupDialect::Telegram, 4096, Unit::Utf16);
    assert!(parts.len() >= 4, "each & and < takes four or five units");
}

#[test]
fn no_pair_and_no_family_is_cut() {
    for (text, unit) in [("😀", Unit::Utf16), ("👨‍👩‍👧‍👦", Unit::Utf16), ("👨‍👩‍👧", Unit::Bytes), ("e\u{301}", Unit::Scalars)]
    {
        for part in parts(&text.repeat(300), MarkupDialect::Telegram, 50, unit) {
            let body = part.source;
            assert_eq!(body.replace(text, ""), "");
        }
    }
}

#[test]
fn a_grapheme_longer_than_a_message_is_cut_between_characters() {
    let text = format!("a{}", "\u{301}".repeat(5000));
    assert!(parts(&text, MarkupDialect::Telegram, 100, Unit::Utf16).len() < 500);
}

#[test]
fn an_address_longer_than_a_message_becomes_text() {
    let url = format!("https://example.org/{}", "a&b/".repeat(200));
    let parts = parts(&format!("see [this]({url}) now"), MarkupDialect::Telegram, 200, Unit::Utf16);
    assert!(parts.iter().all(|part| !part.text.contains("<a ")));
}

#[test]
fn a_table_keeps_its_header_in_every_part() {
    let rows: String = (0..80).map(|n| format!("| row {n} | {} |\n", n * n)).collect();
    let text = format!("| name | square |\n|---|--:|\n{rows}");
    let parts = parts(&text, MarkupDialect::CommonMark, 400, Unit::Scalars);
    assert!(parts.len() > 2);
    for part in &parts {
        assert!(part.text.starts_with("| name | square |\n|---|--:|\n| row"), "{}", part.text);
    }
}

#[test]
fn a_list_that_goes_on_is_still_a_list() {
    let items: String = (1..60).map(|n| format!("{n}. item **number {n}** with words\n   - inner {n}\n")).collect();
    for part in parts(&items, MarkupDialect::CommonMark, 120, Unit::Scalars) {
        assert!(!part.text.starts_with(' '), "{}", part.text);
        assert_eq!(part.text.matches("**").count() % 2, 0);
    }
}

#[test]
fn hostile_nesting_and_size_take_little_time() {
    let deep = [
        "> ".repeat(6_000),
        "- ".repeat(6_000),
        "*a ".repeat(6_000),
        "[".repeat(12_000),
        "**a *b ".repeat(4_000),
        "<u>".repeat(6_000),
        "|".repeat(6_000),
        format!("|{}\n|{}\n{}", "a|".repeat(500), "-|".repeat(500), "|b\n".repeat(2_000)),
        "`".repeat(12_000),
        "![[".repeat(6_000),
        "a\n".repeat(24_000),
        "\u{200d}".repeat(24_000),
        " ".repeat(24_000) + "x",
    ];
    for text in &deep {
        for dialect in [MarkupDialect::Plain, MarkupDialect::CommonMark, MarkupDialect::Telegram] {
            let parts = render(text, dialect, Limit::new(4096, Unit::Utf16));
            let joined: String = parts.iter().map(|part| part.source.as_str()).collect();
            // White space alone is not sent, so blanks before the first words belong to no part.
            assert_eq!(joined.trim(), plain(text).trim());
        }
    }
}

#[test]
fn time_grows_with_the_text() {
    let text = "Some *words* in a line, `code` and [links](https://a.b).\n\n- item\n\n".repeat(8_000);
    let parts = render(&text, MarkupDialect::Telegram, Limit::new(4096, Unit::Utf16));
    assert!(parts.len() > 100);
    let beyond = "word ".repeat(300_000);
    assert!(render(&beyond, MarkupDialect::CommonMark, Limit::new(4096, Unit::Utf16)).len() > 300);
}

#[test]
fn marks_next_to_wide_text_are_read() {
    let bold = |markdown: &str| telegram(markdown);
    assert_eq!(bold("**注意：**请看下面。"), "<b>注意：</b>请看下面。");
    assert_eq!(bold("这是**“重点”**内容。"), "这是<b>“重点”</b>内容。");
    assert_eq!(bold("**日本語の文（括弧）。**次の文。"), "<b>日本語の文（括弧）。</b>次の文。");
    assert_eq!(bold("**复现：**10 轮，**复现:**10 轮"), "<b>复现：</b>10 轮，<b>复现:</b>10 轮");
    assert_eq!(bold("~~删除。~~完成。*强调！*后"), "<s>删除。</s>完成。<i>强调！</i>后");
    assert_eq!(bold("**제목(부제)**은 ***粗斜。***后"), "<b>제목(부제)</b>은 <i><b>粗斜。</b></i>后");
    assert_eq!(bold("**คำเตือน:**ข้อความ **“重点”**OK"), "<b>คำเตือน:</b>ข้อความ <b>“重点”</b>OK");
    assert_eq!(bold("- **一：**甲\n- **二：**乙"), "• <b>一：</b>甲\n• <b>二：</b>乙");
    assert_eq!(discord("**注意：**请"), "**注意：**请");
    assert_eq!(discord("~~删除。~~完成"), "~~删除。~~完成");
    assert_eq!(mrkdwn("**注意：**请"), "*注意：*\u{200b}请");
    // Code, escaped marks and text without marks stay as they are.
    assert_eq!(bold("`**注意：**请` \\*甲\\* 3*4，5"), "<code>**注意：**请</code> *甲* 3*4，5");
    assert_eq!(bold("```\n**注意：**请\n```"), "<pre>**注意：**请</pre>");
    assert_eq!(plain("[甲*乙](https://e.x/甲*乙)"), "甲*乙 (https://e.x/甲*乙)");
}

#[test]
fn text_between_two_double_bars_is_hidden() {
    assert_eq!(telegram("it is ||the butler||."), "it is <tg-spoiler>the butler</tg-spoiler>.");
    assert_eq!(telegram("||a **b** c||"), "<tg-spoiler>a <b>b</b> c</tg-spoiler>");
    assert_eq!(telegram("||**b**||"), "<tg-spoiler><b>b</b></tg-spoiler>");
    assert_eq!(discord("it is ||the butler||."), "it is ||the butler||.");
    // An expression, an open end, code and a table stay as they are.
    for text in ["a || b || c", "(a||b||c)", "|| never closed", "||never closed", "||||", "|| ||"] {
        assert_eq!(telegram(text), text);
        assert_eq!(plain(text), text);
    }
    assert_eq!(telegram("`||a||`"), "<code>||a||</code>");
    assert_eq!(plain("it is ||the butler||."), "it is the butler.");
}
