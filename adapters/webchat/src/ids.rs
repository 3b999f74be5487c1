//! Ids of conversations, messages and runs.

/// Returns 128 random bits in hexadecimal.
pub(crate) fn random_word() -> String {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).expect("the kernel gives random bytes once it is up");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether a word is a valid id of a conversation or message.
pub(crate) fn is_id(word: &str) -> bool {
    (1..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}
