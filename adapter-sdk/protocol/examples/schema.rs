//! Prints the JSON Schema of every payload: `cargo run -p hermes-protocol --features schema --example schema`.

use hermes_protocol as words;
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

fn main() {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut payloads = Map::new();
    macro_rules! add {
        ($($payload:ident),+ $(,)?) => { $(payloads.insert(stringify!($payload).to_owned(), schema::<words::$payload>(&mut generator));)+ };
    }
    add!(
        Announce,
        CallError,
        Capabilities,
        Chat,
        CommandsCall,
        ConnectError,
        DraftCall,
        EditCall,
        Emitted,
        Envelope,
        Event,
        FetchCall,
        HandoffThreadCall,
        LinkState,
        LookupCall,
        LookupReply,
        Manifest,
        MediaCreate,
        MediaSlot,
        Outgoing,
        ReactCall,
        RenameThreadCall,
        RenderCall,
        RenderedPart,
        SendOutcome,
        SentMessage,
        TurnEventCall,
        TypingCall,
    );
    let document = serde_json::json!({
        "title": format!("hermes-protocol {}", words::SDK_VERSION),
        "payloads": payloads,
        "$defs": generator.take_definitions(true),
    });
    println!("{}", serde_json::to_string_pretty(&document).expect("a schema is JSON"));
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}
