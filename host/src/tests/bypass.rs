//! The commands that are answered during a turn, and the replies to the others.

use hermes_core::commands::{CommandId, Place, REGISTRY};

use super::world::World;

const WORKING: &str = "The agent is still working on your last message.";

#[test]
fn every_command_that_need_not_wait_is_answered_while_the_model_hangs_and_the_others_say_that_it_works() {
    let world = World::new();
    let chat = world.chat("7");
    chat.says("/hang on");
    world.until("the turn runs", || (world.host().working.of(Some("operator")).len() == 1).then_some(()));
    let ends_or_needs_words = [
        CommandId::Stop,
        CommandId::New,
        CommandId::Restart,
        CommandId::Queue,
        CommandId::Steer,
        CommandId::Background,
    ];
    let asked = REGISTRY.iter().filter(|command| {
        command.gate.is_none() && command.scope.includes(Place::Dm) && !ends_or_needs_words.contains(&command.id)
    });
    let (mut answered, mut waiting) = (0, 0);
    for command in asked {
        let before = chat.heard().len();
        chat.says(&format!("/{}", command.name));
        let answer = chat.hears(before + 1).remove(before);
        assert_eq!(answer.starts_with(WORKING), !command.bypasses, "/{}: {answer}", command.name);
        if command.bypasses { answered += 1 } else { waiting += 1 }
    }
    assert!(answered > 10 && waiting > 2, "both kinds were tried: {answered}, {waiting}");
    let before = chat.heard().len();
    chat.says("/stop");
    assert!(chat.hears(before + 2)[before..].iter().any(|text| text.contains("Stopped")));
    chat.says("free again");
    world.until("the next is answered", || chat.heard().iter().any(|text| text == "free again").then_some(()));
}
