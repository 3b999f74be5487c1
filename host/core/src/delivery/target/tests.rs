use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Target, TargetError> {
    text.parse()
}

fn place(instance: &str, place: &str) -> Target {
    Target::Place { instance: instance.to_owned(), place: place.to_owned() }
}

#[test]
fn every_form_of_the_grammar_is_read() {
    assert_eq!(read("origin"), Ok(Target::Origin));
    assert_eq!(read(" local "), Ok(Target::Local));
    assert_eq!(read("mail"), Ok(Target::Home { instance: "mail".to_owned() }));
    assert_eq!(read("mail:@Ada L"), Ok(Target::Name { instance: "mail".to_owned(), name: "Ada L".to_owned() }));
    assert_eq!(read("mail:7"), Ok(place("mail", "7")));
    assert_eq!(read("mail:-100:17"), Ok(place("mail", "-100:17")));
    assert_eq!(read("mail:!room:server.org"), Ok(place("mail", "!room:server.org")), "the case and the colons stay");
}

#[test]
fn what_is_no_target_says_what_to_write() {
    assert_eq!(read("  "), Err(TargetError::Empty));
    assert!(matches!(read(":7"), Err(TargetError::NoInstance { .. })));
    assert!(matches!(read("@ada"), Err(TargetError::NoInstance { .. })));
    assert!(matches!(read("two words:7"), Err(TargetError::NoInstance { .. })));
    assert_eq!(read("mail:"), Err(TargetError::NoPlace { instance: "mail".to_owned() }));
    assert_eq!(read("mail: @ "), Err(TargetError::NoName { instance: "mail".to_owned() }));
    assert!(read("mail:").unwrap_err().to_string().contains("use mail for its home channel"));
}

#[test]
fn an_id_with_colons_is_tried_whole_before_its_parts() {
    let all: Vec<_> = readings("!room:server:17").collect();
    assert_eq!(all, [("!room:server:17", None), ("!room:server", Some("17")), ("!room", Some("server:17"))]);
    assert_eq!(readings("7:").collect::<Vec<_>>(), [("7:", None)]);
}

#[test]
fn a_name_is_found_in_whatever_case_and_by_its_only_beginning() {
    let known = [("Ops", 1), ("#general", 2), ("Generals", 3), ("Ada Lovelace", 4)];
    let find = |name: &str| by_name(name, known);
    assert_eq!(find("ops"), Named::One(1));
    assert_eq!(find("General"), Named::One(2), "the exact one before the longer one");
    assert_eq!(find("ada"), Named::One(4));
    assert_eq!(find("gen"), Named::Several(vec![("#general".to_owned(), 2), ("Generals".to_owned(), 3)]));
    assert_eq!(find("opps"), Named::None(vec!["Ops".to_owned()]));
    assert_eq!(find("zzzzzz"), Named::None(Vec::new()));
}

#[test]
fn two_chats_of_one_name_are_both_offered() {
    assert_eq!(
        by_name("ops", [("Ops", 1), ("OPS", 2)]),
        Named::Several(vec![("Ops".to_owned(), 1), ("OPS".to_owned(), 2)])
    );
}

proptest! {
    #[test]
    fn what_was_read_is_written_so_that_it_reads_alike(text in "[a-z@: #A-Z0-9!.\\-]{0,24}") {
        if let Ok(target) = read(&text) {
            prop_assert_eq!(read(&target.to_string()), Ok(target.clone()), "{}", target);
        }
    }

    #[test]
    fn any_text_at_all_is_read_or_refused(text in any::<String>()) {
        match read(&text) {
            Ok(Target::Origin | Target::Local) => prop_assert!(matches!(text.trim(), "origin" | "local")),
            Ok(Target::Home { instance }) => prop_assert_eq!(instance, text.trim()),
            Ok(Target::Name { instance, .. } | Target::Place { instance, .. }) => {
                prop_assert!(!instance.contains(':') && text.trim_start().starts_with(&instance));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn every_reading_is_the_whole_place(place in "[a-z:!]{1,16}") {
        for (chat, thread) in readings(&place) {
            let whole = thread.map_or_else(|| chat.to_owned(), |thread| format!("{chat}:{thread}"));
            prop_assert_eq!(&whole, &place);
        }
    }

    #[test]
    fn who_is_found_goes_by_that_name(name in "[a-cA-C #]{1,6}", known in prop::collection::vec("[a-cA-C #]{1,6}", 0..8)) {
        let all = known.iter().enumerate().map(|(at, name)| (name.as_str(), at));
        let begins = |at: usize| fold(&known[at]).starts_with(&fold(&name));
        match by_name(&name, all) {
            Named::One(at) => prop_assert!(begins(at)),
            Named::Several(several) => prop_assert!(several.len() > 1 && several.iter().all(|(_, at)| begins(*at))),
            Named::None(near) => prop_assert!(near.len() <= OFFERED_MAX && !known.iter().any(|known| fold(known) == fold(&name))),
        }
    }
}
