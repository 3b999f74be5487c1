use proptest::prelude::*;

use super::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

fn random(seed: u8) -> [u8; 32] {
    std::array::from_fn(|at| u8::try_from(at).unwrap().wrapping_mul(37).wrapping_add(seed))
}

fn book() -> PairingBook {
    PairingBook::default()
}

fn offered(book: &mut PairingBook, user: &str, now_ms: i64, seed: u8) -> Code {
    match book.offer("telegram", user, "Ada", now_ms, random(seed)) {
        Offer::New { code, .. } => code,
        other => panic!("{other:?}"),
    }
}

/// The count of the admin who approves in these tests.
fn approver() -> String {
    CodePurpose::Approve.counted_as("telegram", "1")
}

fn is_quiet(offer: &Offer) -> bool {
    matches!(offer, Offer::Quiet { .. })
}

#[test]
fn a_code_lets_its_person_in_once() {
    let mut book = book();
    let code = offered(&mut book, "5", 0, 1);
    let Approval::Granted { grant, request } = book.approve("telegram", "1", code.expose(), MINUTE) else { panic!() };
    assert_eq!(
        (grant.instance.as_str(), grant.user.as_str(), grant.name.as_str(), grant.at_ms),
        ("telegram", "5", "Ada", MINUTE)
    );
    assert_eq!(request.user, "5");
    assert_eq!(book.approve("telegram", "1", code.expose(), MINUTE), Approval::Over(Over::Used));
}

#[test]
fn a_code_is_read_whatever_its_case_spaces_and_hyphens() {
    let mut book = book();
    let code = offered(&mut book, "5", 0, 1);
    let typed = format!(" {}-{} ", &code.expose()[..4].to_lowercase(), &code.expose()[4..]);
    assert!(matches!(book.approve("telegram", "1", &typed, 0), Approval::Granted { .. }));
}

#[test]
fn a_code_counts_on_its_instance_for_an_hour() {
    let mut book = book();
    let code = offered(&mut book, "5", 0, 1);
    assert!(matches!(book.approve("slack", "1", code.expose(), 0), Approval::Wrong { .. }));
    assert_eq!(book.approve("telegram", "1", code.expose(), HOUR), Approval::Over(Over::Expired));
    assert_eq!(book.list(HOUR).count(), 0);
}

#[test]
fn a_person_gets_one_code_one_reminder_and_then_silence_for_ten_minutes() {
    let mut book = book();
    let first = offered(&mut book, "5", 0, 1);
    assert!(
        matches!(book.offer("telegram", "5", "Ada", 1, random(2)), Offer::Reminder { request } if request.reminders == 1)
    );
    assert!(is_quiet(&book.offer("telegram", "5", "Ada", 2, random(3))));
    assert!(is_quiet(&book.offer("telegram", "5", "Ada", 10 * MINUTE - 1, random(4))));
    let second = offered(&mut book, "5", 10 * MINUTE, 5);
    assert_eq!(book.list(10 * MINUTE).count(), 1, "a new code replaces the older one");
    assert_eq!(book.approve("telegram", "1", first.expose(), 10 * MINUTE), Approval::Over(Over::Replaced));
    assert!(matches!(book.approve("telegram", "1", second.expose(), 10 * MINUTE), Approval::Granted { .. }));
}

#[test]
fn three_strangers_use_up_their_own_codes_and_no_invitation() {
    let mut book = book();
    for (user, seed) in [("1", 1), ("2", 2), ("3", 3)] {
        offered(&mut book, user, 0, seed);
    }
    assert!(is_quiet(&book.offer("telegram", "4", "", 0, random(4))));
    for seed in 0..limits::PAIRING_INVITATIONS_MAX {
        assert!(book.invite("telegram", 0, random(u8::try_from(seed).unwrap())).is_some(), "{seed}");
    }
    assert!(book.invite("telegram", 0, random(99)).is_none(), "invitations have a bound of their own");
    assert!(matches!(book.offer("slack", "4", "", 0, random(5)), Offer::New { .. }));
    book.revoke("telegram", "2").unwrap();
    offered(&mut book, "4", 1, 6);
}

#[test]
fn five_wrong_codes_lock_out_who_entered_them_right_ones_included_and_nobody_else() {
    let mut book = book();
    let code = offered(&mut book, "5", 0, 1);
    for left in (1..=4).rev() {
        assert_eq!(book.approve("telegram", "1", "AAAA2222", 0), Approval::Wrong { left });
    }
    assert_eq!(book.approve("telegram", "1", "BBBB2222", 0), Approval::Locked { until_ms: HOUR });
    assert_eq!(book.approve("telegram", "1", code.expose(), HOUR - 1), Approval::Locked { until_ms: HOUR });
    assert_eq!(book.lockout(&approver()).map(|lockout| lockout.until_ms), Some(HOUR));

    assert!(matches!(book.approve("telegram", "2", code.expose(), 1), Approval::Granted { .. }), "another admin");
    offered(&mut book, "6", 1, 3);
    assert!(book.invite("telegram", 1, random(4)).is_some());
    assert_eq!(book.approve("telegram", "1", "AAAA2222", HOUR), Approval::Wrong { left: 4 }, "the count begins anew");
}

#[test]
fn a_right_code_takes_the_wrong_ones_back() {
    let mut book = book();
    let code = offered(&mut book, "5", 0, 1);
    for _ in 0..4 {
        let _ = book.approve("telegram", "1", "AAAA2222", 0);
    }
    assert!(matches!(book.approve("telegram", "1", code.expose(), 0), Approval::Granted { .. }));
    assert_eq!(book.lockout(&approver()), None);
    assert_eq!(book.approve("telegram", "1", "AAAA2222", 0), Approval::Wrong { left: 4 });
}

#[test]
fn a_lockout_survives_a_restart_of_the_host() {
    let mut before = book();
    let code = offered(&mut before, "5", 0, 1);
    for _ in 0..5 {
        let _ = before.approve("telegram", "1", "wrong", 0);
    }
    let rows: Vec<PairingRequest> = before.list(0).cloned().collect();
    let lockout = before.lockout(&approver()).cloned();
    let mut after = PairingBook::new(PairingLimits::default(), rows, lockout);
    assert!(matches!(after.approve("telegram", "1", code.expose(), 1), Approval::Locked { .. }));
    after.clear(Some("telegram"));
    assert!(after.locked_until(&approver(), 1).is_none() && after.list(1).count() == 0);
}

#[test]
fn an_invitation_lets_in_whoever_sends_it() {
    let mut book = book();
    assert_eq!(book.redeem("telegram", "5", "Ada", "ABCDEFGH", 0), None, "no invitation is open");
    let (code, row) = book.invite("telegram", 0, random(9)).unwrap();
    assert_eq!(row.user, "");
    assert_eq!(book.redeem("telegram", "5", "Ada", "hello there", 0), None, "words are no code");
    assert_eq!(book.redeem("telegram", "", "", code.expose(), 0), None);
    assert_eq!(
        book.approve("telegram", "1", code.expose(), 0),
        Approval::Over(Over::OtherWay),
        "it names nobody to approve"
    );
    let Some(Approval::Granted { grant, .. }) = book.redeem("telegram", "5", "Ada", code.expose(), 0) else { panic!() };
    assert_eq!((grant.user.as_str(), grant.name.as_str()), ("5", "Ada"));
    assert_eq!(book.redeem("telegram", "6", "", code.expose(), 0), None);
}

#[test]
fn wrong_invitations_lock_out_the_stranger_who_sent_them_and_no_invitation() {
    let mut book = book();
    let (code, _) = book.invite("telegram", 0, random(9)).unwrap();
    for left in (1..=4).rev() {
        assert_eq!(book.redeem("telegram", "6", "", "AAAA2222", 0), Some(Approval::Wrong { left }));
    }
    let locked = Some(Approval::Locked { until_ms: HOUR });
    assert_eq!(book.redeem("telegram", "6", "", "AAAA2222", 0), locked);
    assert_eq!(book.redeem("telegram", "6", "", code.expose(), 1), locked, "right ones included");
    assert!(is_quiet(&book.offer("telegram", "6", "", 1, random(2))), "and no request either");
    let other = offered(&mut book, "7", 1, 3);
    assert!(matches!(book.approve("telegram", "1", other.expose(), 1), Approval::Granted { .. }));
    assert!(book.invite("telegram", 1, random(4)).is_some());
    let granted = book.redeem("telegram", "5", "Ada", code.expose(), 1);
    assert!(matches!(granted, Some(Approval::Granted { .. })), "{granted:?}");
}

#[test]
fn a_stranger_who_would_be_answered_is_known_before() {
    let mut book = book();
    let mut seed = 0;
    let mut answered = 0;
    for now_ms in [0, 1, 2, 10 * MINUTE, 10 * MINUTE + 1, 10 * MINUTE + 2, HOUR, 2 * HOUR] {
        for user in ["5", "6", "7", "8", ""] {
            seed += 1;
            let expected = book.would_offer("telegram", user, now_ms);
            let offer = book.offer("telegram", user, "Ada", now_ms, random(seed));
            assert_eq!(expected, !is_quiet(&offer), "{user} at {now_ms}: {offer:?}");
            answered += usize::from(expected);
        }
    }
    assert!(answered > 10, "{answered}");
    let _invitations = (0..5).map(|seed| book.invite("telegram", 4 * HOUR, random(seed))).collect::<Vec<_>>();
    assert!(book.would_offer("telegram", "9", 4 * HOUR), "invitations take no place");
}

#[test]
fn a_code_that_would_admit_its_sender_is_known_before() {
    let mut book = book();
    let (code, _) = book.invite("telegram", 0, random(9)).unwrap();
    assert!(book.would_redeem("telegram", "5", code.expose(), 0));
    for _ in 0..5 {
        let _ = book.redeem("telegram", "6", "", "AAAA2222", 0);
    }
    assert!(!book.would_offer("telegram", "6", 0), "locked out");
    for (instance, user, text, now_ms) in [
        ("slack", "5", code.expose(), 0),
        ("telegram", "", code.expose(), 0),
        ("telegram", "5", "AAAA2222", 0),
        ("telegram", "5", "hello there", 0),
        ("telegram", "5", code.expose(), HOUR),
        ("telegram", "6", code.expose(), 0),
    ] {
        assert!(!book.would_redeem(instance, user, text, now_ms), "{instance} {user} {text} {now_ms}");
    }
    assert!(matches!(book.redeem("telegram", "5", "Ada", code.expose(), 0), Some(Approval::Granted { .. })));
    assert!(!book.would_redeem("telegram", "6", code.expose(), 0));
}

#[test]
fn neither_a_row_nor_a_debug_text_shows_the_code() {
    let mut book = book();
    let code = offered(&mut book, "5", 0, 1);
    let row = serde_json::to_string(book.list(0).next().unwrap()).unwrap();
    assert!(!row.contains(code.expose()) && !format!("{code:?} {book:?}").contains(code.expose()));
    let read: PairingRequest = serde_json::from_str(&row).unwrap();
    assert_eq!(Some(&read), book.list(0).next());
}

#[test]
fn equal_codes_with_different_salts_do_not_look_alike() {
    let (a, salt_a) = Code::draw(random(1));
    let mut other = random(1);
    other[20] ^= 1;
    let (b, salt_b) = Code::draw(other);
    assert_eq!(a, b);
    assert_ne!(a.hash(&salt_a), b.hash(&salt_b));
    assert!(a.matches(&salt_b, &b.hash(&salt_b)) && !a.matches(&salt_a, "") && !a.matches(&salt_a, &b.hash(&salt_b)));
}

proptest! {
    #[test]
    fn a_code_has_eight_characters_that_nobody_mistakes(bytes: [u8; 32]) {
        let (code, salt) = Code::draw(bytes);
        prop_assert!(is_code(code.expose()) && code.expose().len() == 8);
        prop_assert!(!code.expose().contains(['I', 'O', '0', '1']));
        prop_assert_eq!(salt.len(), 32);
        prop_assert_eq!(&Code::entered(code.expose()), &code);
        prop_assert!(code.matches(&salt, &code.hash(&salt)));
    }

    #[test]
    fn no_text_that_somebody_enters_breaks_the_book(text in "\\PC{0,50}") {
        let mut book = book();
        let _ = book.invite("telegram", 0, random(1));
        let _ = book.redeem("telegram", "5", "", &text, 0);
        let granted = matches!(book.approve("telegram", "1", &text, 0), Approval::Granted { .. });
        prop_assert!(!granted);
    }

    #[test]
    fn the_bounds_hold_whatever_strangers_do(
        steps in proptest::collection::vec((0u8..6, 0u8..8, 0i64..20), 0..80),
    ) {
        let (mut book, mut now) = (book(), 0);
        let mut codes: Vec<(String, i64)> = Vec::new();
        for (seed, (user, action, minutes)) in steps.into_iter().enumerate() {
            now += minutes * MINUTE;
            let user = user.to_string();
            let locked = book.locked_until(&approver(), now).is_some();
            if action < 6 {
                let offer = book.offer("telegram", &user, "", now, random(u8::try_from(seed).unwrap()));
                if let Offer::New { .. } = offer {
                    prop_assert!(codes.iter().all(|(whose, at)| *whose != user || now - at >= 10 * MINUTE));
                    codes.push((user, now));
                }
            } else {
                let approval = book.approve("telegram", "1", "AAAAAAAA", now);
                let refused = matches!(approval, Approval::Locked { .. });
                prop_assert!(!locked || refused);
            }
            prop_assert!(book.list(now).count() <= 3);
            prop_assert!(book.list(now).all(|request| now - request.made_ms < HOUR && request.reminders <= 1));
        }
    }
}

#[test]
fn a_code_that_was_right_once_does_not_count_as_wrong_and_neither_does_nothing() {
    let mut book = book();
    let first = offered(&mut book, "5", 0, 1);
    let second = offered(&mut book, "5", 600_000, 2);
    for _ in 0..10 {
        assert_eq!(book.approve("telegram", "1", first.expose(), 600_000), Approval::Over(Over::Replaced));
        for nothing in ["", " ", "- -"] {
            assert_eq!(book.approve("telegram", "1", nothing, 600_000), Approval::Empty);
        }
    }
    assert!(matches!(book.approve("telegram", "1", second.expose(), 600_000), Approval::Granted { .. }));
    assert_eq!(book.approve("telegram", "1", second.expose(), 600_000), Approval::Over(Over::Used));
    let late = offered(&mut book, "6", 600_000, 3);
    assert_eq!(book.approve("telegram", "1", late.expose(), 4_200_000), Approval::Over(Over::Expired));
    assert_eq!(book.lockout(&approver()), None);
    assert!(matches!(book.approve("slack", "1", late.expose(), 4_200_000), Approval::Wrong { .. }), "it was another's");
    book.clear(Some("telegram"));
    assert!(matches!(book.approve("telegram", "1", late.expose(), 4_200_000), Approval::Wrong { .. }));
}

#[test]
fn a_strangers_own_code_is_no_wrong_invitation() {
    let mut book = book();
    let own = offered(&mut book, "5", 0, 1);
    let _ = book.invite("telegram", 0, random(9)).unwrap();
    assert_eq!(book.redeem("telegram", "5", "Ada", own.expose(), 0), None);
    assert_eq!(book.lockout(&CodePurpose::Redeem.counted_as("telegram", "5")), None);
}

#[test]
fn only_so_many_codes_are_remembered_when_they_are_over() {
    let mut book = book();
    let first = offered(&mut book, "5", 0, 1);
    for n in 1..=limits::PAIRING_OVER_MAX {
        // The first bytes determine the code.
        let random = std::array::from_fn(|at| if at == 1 { u8::try_from(n / 32 + 1).unwrap() } else { n as u8 });
        let _ = book.offer("telegram", "5", "Ada", n as i64 * 10 * MINUTE, random);
        let replaced = book.approve("telegram", "1", first.expose(), n as i64 * 10 * MINUTE);
        assert_eq!(replaced, Approval::Over(Over::Replaced), "{n}");
    }
    let _ = offered(&mut book, "5", 100 * HOUR, 2);
    assert!(matches!(book.approve("telegram", "1", first.expose(), 100 * HOUR), Approval::Wrong { .. }));
}
