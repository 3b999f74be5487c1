//! Chance that a failing run can repeat.

/// A small generator: the same seed draws the same numbers.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// A generator for this seed; zero is a seed like any other.
    pub fn new(seed: u64) -> Self {
        // The first draws of neighbouring seeds would resemble each other.
        let mut chance = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            chance.draw();
        }
        chance
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// Whether something happens that happens once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = self.below(choices.len() as u64);
        choices[usize::try_from(at).expect("below a length")]
    }

    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
