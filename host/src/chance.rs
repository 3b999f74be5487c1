//! Where randomness comes from. The only place of the pipeline that draws any.

/// Draws random bytes. Object safe, so that a test can load the dice.
pub trait Chance: Send + Sync + 'static {
    /// Fills `bytes` with bytes nobody can guess.
    fn fill(&self, bytes: &mut [u8]);
}

/// The generator of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemChance;

impl Chance for SystemChance {
    fn fill(&self, bytes: &mut [u8]) {
        // Without randomness pairing codes could be guessed: there is nothing sensible to go on with.
        getrandom::fill(bytes).expect("the operating system has a random generator");
    }
}

/// Draws a number.
pub fn number(chance: &dyn Chance) -> u64 {
    let mut bytes = [0; 8];
    chance.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
