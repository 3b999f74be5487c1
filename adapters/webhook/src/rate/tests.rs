use super::*;

const NOW_MS: i64 = 1_764_288_000_000;

#[test]
fn a_minute_has_room_for_so_many_calls_and_the_next_one_hears_when() {
    let mut rate = Rate::default();
    for second in 0..3 {
        assert_eq!(rate.take(3, NOW_MS + second * 1_000), Ok(()));
    }
    assert_eq!(rate.take(3, NOW_MS + 2_500), Err(58));
    assert_eq!(rate.take(3, NOW_MS + 59_999), Err(1));
    assert_eq!(rate.take(3, NOW_MS + 60_000), Ok(()));
    assert_eq!(rate.take(3, NOW_MS - 3_600_000), Ok(()), "a clock that was put back shuts no door");
}
