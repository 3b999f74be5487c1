//! Random numbers from a seed, and inputs made of other inputs.

/// The largest input, in bytes.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Bytes that parsers like to stumble over.
const SHARP: [u8; 24] = *b"\0\x01\t\n\r \"'\\/:;,.[]{}<>&*\x7f\xff";

/// Numbers at which things end.
const EDGES: [&str; 9] = [
    "0",
    "-1",
    "1e999",
    "65536",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "-9223372036854775809",
];

/// SplitMix64: small, and good enough to choose bytes with.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is above zero.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("it is below a usize")
    }

    fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

/// An input made of `seeds` and `words`.
pub fn input(random: &mut Random, seeds: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    // Few changes reach deep, many reach wide.
    let changes = 1 << random.below(6);
    for _ in 0..changes {
        change(random, &mut bytes, seeds, words);
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
    let at = random.below(bytes.len() + 1);
    let to = (at + random.below(16)).min(bytes.len());
    match random.below(12) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.below(256) as u8,
        2 => bytes.insert(at, SHARP[random.below(SHARP.len())]),
        3 | 4 if !words.is_empty() => drop(bytes.splice(at..at, random.of(words).bytes())),
        5 => drop(bytes.splice(at..to, random.of(&EDGES).bytes())),
        6 => drop(bytes.drain(at..to)),
        7 => {
            // A piece again and again: depth, length, repetition.
            let piece = bytes[at..to].to_vec();
            let times = 1 << random.below(10);
            if piece.len() * times <= INPUT_BYTES_MAX {
                drop(bytes.splice(at..at, piece.repeat(times)));
            }
        }
        8 => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            drop(bytes.splice(at.., other[from..].iter().copied()));
        }
        9 => bytes.truncate(at),
        10 => {
            let letters = ["é", "\u{200d}", "👩‍👩‍👧", "\u{202e}", "\u{feff}", "𝕏", "e\u{301}\u{301}", "\u{0}", "İ", "ß"];
            drop(bytes.splice(at..at, random.of(&letters).bytes()));
        }
        _ => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            let until = (from + random.below(64)).min(other.len());
            drop(bytes.splice(at..to, other[from..until].iter().copied()));
        }
    }
}
