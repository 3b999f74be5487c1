use super::*;

#[test]
fn only_opus_in_ogg_is_a_voice_message_and_what_is_meant_as_one_is_audio_otherwise() {
    let file = |mime: &str| OutMedia::new("a", "/x", mime, "x", 9);
    let spoken = |mime: &str| file(mime).shown_as(AttachmentKind::Voice);
    assert_eq!(method_for(&spoken("audio/ogg"), true).0, "sendVoice");
    assert_eq!(method_for(&file("audio/ogg"), true).0, "sendVoice", "its type says it");
    assert_eq!(method_for(&spoken("audio/ogg"), false).0, "sendAudio");
    assert_eq!(method_for(&file("audio/ogg"), false).0, "sendDocument");
    assert_eq!(method_for(&spoken("audio/mpeg"), false).0, "sendAudio");
    assert_eq!(method_for(&spoken("audio/wav"), false).0, "sendDocument");
}

#[test]
fn photos_and_films_mix_in_an_album_recordings_stay_together_and_anything_else_is_documents() {
    let album = |mimes: &[&str]| {
        let files: Vec<_> = mimes.iter().map(|mime| OutMedia::new("a", "/x", *mime, "x", 9)).collect();
        kind_of_album(&files)
    };
    assert_eq!(album(&["image/png", "video/mp4"]), None);
    assert_eq!(album(&["audio/mpeg", "audio/mp4"]), Some("audio"));
    assert_eq!(album(&["image/png", "audio/mpeg"]), Some("document"));
    assert_eq!(album(&["image/png", "text/plain"]), Some("document"));
}
