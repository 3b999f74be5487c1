use super::*;

const NOW_MS: i64 = 1_764_288_000_000;

fn mark(n: u32) -> [u8; 8] {
    (u64::from(n) << 8).to_be_bytes()
}

#[test]
fn what_was_signed_is_remembered_for_its_time_and_over_a_restart() {
    let mut marks = Marks::default();
    marks.record(mark(1), NOW_MS, 600);
    assert!(marks.has(mark(1), NOW_MS) && marks.has(mark(1), NOW_MS + 599_000));
    assert!(!marks.has(mark(1), NOW_MS + 600_000) && !marks.has(mark(2), NOW_MS));
    let again = Marks::read(&marks.write()).unwrap();
    assert_eq!(again, marks);
    assert!(Marks::read("???").is_none() && Marks::read("AAAA").is_none());
}

#[test]
fn what_is_remembered_is_bounded_and_fits_into_one_value() {
    let mut marks = Marks::default();
    for n in 0..MARKS_MAX as u32 + 5 {
        marks.record(mark(n), NOW_MS, 3_600);
    }
    assert_eq!(marks.seen.len(), MARKS_MAX);
    assert!(!marks.has(mark(4), NOW_MS) && marks.has(mark(5), NOW_MS));
    assert!(marks.write().len() <= 64 * 1024);
    marks.record(mark(0), NOW_MS + 3_600_000, 3_600);
    assert_eq!(marks.seen.len(), 1, "what is over goes");
}
