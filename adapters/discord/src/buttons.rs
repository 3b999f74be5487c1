//! Buttons below messages, and their ids.

use hermes_adapter_sdk::prelude::*;
use serde_json::{Value, json};

/// The prefix of a button's id, which distinguishes our buttons from those of other programs.
const ID_PREFIX: &str = "ask:";
/// The maximum number of buttons per row, and of rows.
/// <https://docs.discord.com/developers/components/reference#action-row>
const ROW_MAX: usize = 5;
/// The maximum length of a button's label, in characters.
/// <https://docs.discord.com/developers/components/reference#button>
const LABEL_CHARS_MAX: usize = 80;

/// Returns the rows of buttons for the choices of a message.
pub(crate) fn rows(choices: Option<&Choices>) -> Value {
    let Some(choices) = choices else { return json!([]) };
    let buttons: Vec<Value> = choices
        .options
        .iter()
        .take(ROW_MAX * ROW_MAX)
        .map(|option| {
            let label: String = option.label.chars().take(LABEL_CHARS_MAX).collect();
            // <https://docs.discord.com/developers/components/reference#button-button-styles>
            let style = match option.style.as_str() {
                "primary" => 1,
                "danger" => 4,
                _ => 2,
            };
            json!({ "type": 2, "style": style, "label": label, "custom_id": format!("{ID_PREFIX}{}:{}", choices.ask, option.id) })
        })
        .collect();
    buttons.chunks(ROW_MAX).map(|row| json!({ "type": 1, "components": row })).collect()
}

/// Returns whether a button is one of ours.
pub(crate) fn is_ours(custom_id: &str) -> bool {
    custom_id.starts_with(ID_PREFIX)
}

/// Returns the choice that a pressed button of ours stands for.
pub(crate) fn choice(custom_id: &str) -> Option<ChoiceMade> {
    let (ask, option) = custom_id.strip_prefix(ID_PREFIX)?.split_once(':')?;
    Some(ChoiceMade::new(ask, option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buttons_stand_in_rows_of_five_and_are_named_where_there_are_none() {
        let options = (0..7).map(|n| ChoiceOption::new(format!("o{n}"), "l".repeat(90))).collect();
        assert_eq!(rows(None), json!([]));
        let rows = rows(Some(&Choices::new("ask1", options, 0)));
        let sizes: Vec<usize> =
            rows.as_array().unwrap().iter().map(|row| row["components"].as_array().unwrap().len()).collect();
        assert_eq!(sizes, [5, 2]);
        let first = &rows[0]["components"][0];
        assert_eq!((first["custom_id"].as_str(), first["style"].as_u64()), (Some("ask:ask1:o0"), Some(2)));
        assert_eq!(first["label"].as_str().unwrap().len(), LABEL_CHARS_MAX);
    }
}
