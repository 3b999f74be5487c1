//! The source of randomness, the only one of the message path.

/// Draws random bytes. Object safe, so that a test can supply fixed ones.
pub trait Chance: Send + Sync + 'static {
    /// Fills `bytes` with unpredictable bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// The generator of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemChance;

impl Chance for SystemChance {
    fn fill(&self, bytes: &mut [u8]) {
        // Without randomness pairing codes could be guessed, so the host must not continue.
        getrandom::fill(bytes).expect("the operating system has a random generator");
    }
}

/// Draws a number.
pub fn number(chance: &dyn Chance) -> u64 {
    let mut bytes = [0; 8];
    chance.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
