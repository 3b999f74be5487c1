use serde_json::json;

use super::*;

#[test]
fn neighbours_of_one_album_are_one_group_and_others_stand_alone() {
    let update = |id: i64, group: Option<&str>| json!({ "update_id": id, "message": { "media_group_id": group } });
    let batch = [
        update(1, None),
        update(2, Some("A")),
        update(3, Some("A")),
        update(4, Some("B")),
        update(5, None),
        update(6, None),
    ];
    let sizes: Vec<usize> = groups(&batch).map(<[Value]>::len).collect();
    assert_eq!(sizes, [1, 2, 1, 1, 1]);
}

#[test]
fn the_next_poll_begins_behind_the_last_update_whatever_its_id() {
    let batch = |ids: &[Value]| ids.iter().map(|id| json!({ "update_id": id })).collect::<Vec<_>>();
    assert_eq!(next_offset(&batch(&[json!(7), json!(5)])), Some(8));
    assert_eq!(next_offset(&batch(&[json!(i64::MAX)])), Some(i64::MAX));
    assert_eq!(next_offset(&batch(&[json!("7"), Value::Null])), None);
}

#[test]
fn a_refused_token_needs_a_person_and_a_conflict_only_time() {
    let refused = |code| {
        ApiError::Refused(crate::api::Refused {
            code,
            description: "x".into(),
            retry_after_ms: None,
            migrate_to_chat_id: None,
        })
    };
    assert!(matches!(lost(&refused(401)), ConnectError::Fatal { .. }));
    assert!(matches!(lost(&refused(409)), ConnectError::Retry { after_ms: Some(10_000), .. }));
    assert!(matches!(lost(&ApiError::Doubtful("cut".into())), ConnectError::Retry { after_ms: None, .. }));
}
