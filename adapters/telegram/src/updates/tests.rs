use serde_json::json;

use super::*;

fn message(update: i64, chat: i64) -> Value {
    json!({ "update_id": update, "message": {
        "message_id": update, "date": 1, "text": "hi", "chat": { "id": chat, "type": "private" },
        "from": { "id": chat, "first_name": "Ada" },
    } })
}

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
fn a_batch_is_cut_by_chats_and_around_a_chat_that_moves() {
    let pressed = json!({ "update_id": 3, "callback_query": { "id": "1", "message": { "chat": { "id": 5 } } } });
    let edited = json!({ "update_id": 6, "edited_message": { "chat": { "id": 5 } } });
    let moved = json!({ "update_id": 4, "message": { "chat": { "id": -5 }, "migrate_to_chat_id": -100 } });
    let batch = [
        message(1, 5),
        message(2, 6),
        pressed,
        moved,
        message(5, 5),
        edited,
        json!({ "update_id": 7 }),
        message(8, -5),
    ];
    let ids = |groups: &Vec<&[Value]>| groups.iter().flat_map(|group| group.iter().filter_map(update_id)).collect();
    let cut: Vec<Vec<Vec<i64>>> = by_chat(&batch).iter().map(|chats| chats.iter().map(ids).collect()).collect();
    assert_eq!(cut, [vec![vec![1, 3], vec![2]], vec![vec![4]], vec![vec![7], vec![8], vec![5, 6]]]);
}

#[test]
fn the_next_poll_begins_behind_the_last_update_whatever_its_id() {
    let batch = |ids: &[Value]| ids.iter().map(|id| json!({ "update_id": id })).collect::<Vec<_>>();
    assert_eq!(next_offset(&batch(&[json!(7), json!(5)])), Some(8));
    assert_eq!(next_offset(&batch(&[json!(7), json!(i64::MAX), json!(-1), json!(1_u64 << 63)])), Some(8));
    assert_eq!(next_offset(&batch(&[json!(i64::MAX)])), None, "a number that was garbled moves nothing");
    assert_eq!(next_offset(&batch(&[json!("7"), Value::Null])), None);
}
