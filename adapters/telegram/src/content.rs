//! The content of a message that is neither text nor a file: places, contacts, polls, games.

use crate::objects::{Location, Message, TextObject, TitledContent};

/// The maximum number of shown options of a poll or tasks of a checklist.
const LINES_MAX: usize = 30;
/// Returns `text`, with the lines for the parts that are neither text nor files below it.
pub(crate) fn with_lines(mut text: String, message: &Message) -> String {
    for line in content_lines(message) {
        text = if text.is_empty() { line } else { format!("{text}\n{line}") };
    }
    text
}

/// Returns the lines for the parts of a message that are neither text nor files.
fn content_lines(message: &Message) -> impl Iterator<Item = String> {
    let coordinates = |location: &Location| format!("{:.5}, {:.5}", location.latitude, location.longitude);
    // A venue includes its location, which the message repeats.
    let place = match (&message.venue, &message.location) {
        (Some(venue), _) => {
            Some(format!("[place: {}, {}, {}]", venue.title, venue.address, coordinates(&venue.location)))
        }
        (None, location) => location.as_ref().map(|location| format!("[location {}]", coordinates(location))),
    };
    let contact =
        message.contact.as_ref().map(|contact| format!("[contact {} {}]", contact.first_name, contact.phone_number));
    let poll = message.poll.as_ref().map(|poll| list("poll", &poll.question, &poll.options));
    let checklist = message.checklist.as_ref().map(|checklist| list("checklist", &checklist.title, &checklist.tasks));
    let dice = message.dice.as_ref().map(|dice| {
        let emoji = if dice.emoji.is_empty() { String::new() } else { format!(" {}", dice.emoji) };
        format!("[dice{emoji}: {}]", dice.value)
    });
    let titled = |kind: &str, shown: &Option<TitledContent>| {
        shown.as_ref().map(|shown| format!("[{kind}: {}. {}]", shown.title, shown.description))
    };
    let (game, invoice) = (titled("game", &message.game), titled("invoice", &message.invoice));
    let bare = [("[story]", &message.story), ("[paid media]", &message.paid_media)];
    let bare = bare.into_iter().filter(|(_, content)| content.is_some()).map(|(label, _)| label.to_owned());
    [place, contact, poll, checklist, dice, game, invoice].into_iter().flatten().chain(bare)
}

fn list(kind: &str, title: &str, lines: &[TextObject]) -> String {
    let lines = lines.iter().take(LINES_MAX).map(|line| format!("\n- {}", line.text));
    format!("[{kind}: {title}{}]", lines.collect::<String>())
}
