use super::*;

fn outgoing(text: &str) -> Outgoing {
    let mut message = Outgoing::text(Chat::dm("T1/D1"), text);
    message.format = Format::Native;
    message
}

#[test]
fn an_address_in_a_section_is_a_link_though_the_section_is_verbatim() {
    let mut long = outgoing(&format!("see https://a.b/c?d=1&amp;e. {}", "word ".repeat(1000)));
    long.source = long.text.clone();
    let (_, blocks) = text_and_blocks(&long);
    let first = blocks.unwrap()[0]["text"].clone();
    assert_eq!(first["verbatim"], true);
    assert!(first["text"].as_str().unwrap().starts_with("see <https://a.b/c?d=1&amp;e>. word"), "{first}");
}

#[test]
fn every_section_fits_and_none_ends_within_a_link_or_an_escaped_character() {
    let link = "<https://example.org/a?b=1&amp;c=2|the long label of a link> and some words &lt;here&gt; 🦀 ";
    for text in
        [link.repeat(200), link.repeat(200).replace(' ', ""), "&amp;".repeat(4000), "x".repeat(9001), "🦀".repeat(4000)]
    {
        let found = sections(&text);
        assert!(found.len() > 1);
        for piece in &found {
            assert!(piece.encode_utf16().count() <= SECTION_UTF16_MAX, "{}", piece.len());
            assert_eq!(piece.matches('<').count(), piece.matches('>').count(), "{piece}");
            let ends = piece.matches(';').count();
            assert_eq!(piece.matches('&').count(), ends, "{piece}");
        }
        assert_eq!(found.concat(), text);
    }
}

#[test]
fn code_that_is_cut_is_code_in_both_sections() {
    let code: String = (0..200).map(|n| format!("line {n} of the code\n")).collect();
    let found = sections(&format!("before\n```\n{code}```\nafter *it*"));
    assert!(found.len() > 1);
    for piece in &found {
        assert!(piece.encode_utf16().count() <= SECTION_UTF16_MAX);
        assert_eq!(piece.matches("```").count() % 2, 0, "{piece}");
    }
    assert!(found[1].starts_with("```\nline ") && found.last().unwrap().ends_with("```\nafter *it*"));
    for n in 0..200 {
        assert_eq!(found.iter().filter(|piece| piece.contains(&format!("line {n} of"))).count(), 1);
    }
}

#[test]
fn short_texts_are_one_section_and_none_is_empty() {
    assert_eq!(sections("a\n\nb"), ["a\n\nb"]);
    assert_eq!(sections(""), Vec::<String>::new());
    let (x, b) = ("x".repeat(2980), "b".repeat(30));
    assert_eq!(sections(&format!("{x}\n\n\n{b}")), [x, b]);
}

#[test]
fn a_question_has_its_text_in_sections_and_its_buttons_in_rows() {
    let mut options: Vec<ChoiceOption> = (0..30).map(|n| ChoiceOption::new(format!("o{n}"), "x".repeat(90))).collect();
    options[0].style = "danger".into();
    options[1].style = "bold".into();
    let choices = Choices::new("ask1", options, 0);
    let found = blocks(&outgoing("*May I?*"), Some(&choices));
    assert_eq!(
        found[0],
        json!({ "type": "section", "text": { "type": "mrkdwn", "text": "*May I?*", "verbatim": true } })
    );
    assert_eq!(
        (found[1]["elements"].as_array().unwrap().len(), found[2]["elements"].as_array().unwrap().len()),
        (25, 5)
    );
    let button = &found[1]["elements"][0];
    assert_eq!((&button["value"], &button["style"]), (&json!("ask1:o0"), &json!("danger")));
    assert_eq!(button["text"]["text"].as_str().unwrap().len(), LABEL_CHARS_MAX);
    assert!(found[1]["elements"][1].get("style").is_none(), "Slack knows no other styles");
    assert_ne!(found[1]["block_id"], found[2]["block_id"]);
}

#[test]
fn plain_text_is_shown_as_it_is() {
    let plain = Outgoing::text(Chat::dm("T1/D1"), "<!channel> & *stars*");
    assert_eq!(text(&plain), "&lt;!channel&gt; &amp; *stars*");
    assert_eq!(blocks(&plain, None)[0]["text"], json!({ "type": "plain_text", "text": "<!channel> & *stars*" }));
    assert_eq!(text(&outgoing("<https://a.b|c>")), "<https://a.b|c>");
}

#[test]
fn a_text_that_is_cut_to_bytes_ends_at_a_character() {
    assert_eq!(truncate_escaped("abc", 3), "abc");
    assert_eq!(truncate_escaped("ab&amp;", 5), "ab");
    assert_eq!(truncate_escaped("ab&amp;c", 7), "ab&amp;");
    assert_eq!(truncate_escaped("a🦀", 4), "a");
}
