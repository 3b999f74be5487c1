//! Replacements for parts that a platform refused.

use hermes_markup::measure;
use hermes_protocol::{Format, TextUnit};

use super::job::Job;
use crate::engine::reply::render::{render, unit};
use hermes_loader::AdapterHandle;
use hermes_store::{NewPart, OwedPart};

/// The divisor of the limit for a part that was too long although it kept the declared limit.
const SHARE: u32 = 2;

/// The smallest limit of a part.
const LIMIT_MIN: u32 = 64;

/// Returns the next part as plain text, and the parts after it unchanged.
pub fn plain_from(job: &Job) -> Vec<NewPart> {
    let mut parts = rest(job);
    if let Some(first) = parts.first_mut() {
        first.text.clone_from(&first.source);
        first.format = Format::Plain;
    }
    parts
}

/// Returns the rest of the delivery in smaller parts: rendered again if no part was sent, else as plain text from the
/// sources of the remaining parts.
pub async fn smaller(adapter: Option<&AdapterHandle>, job: &Job) -> Vec<NewPart> {
    let declared = adapter.map(|adapter| adapter.capabilities().text.clone()).unwrap_or_default();
    let longest = job.part().text.chars().count();
    let limit = match declared.limit {
        0 => u32::try_from(longest).unwrap_or(u32::MAX) / SHARE,
        limit => limit / SHARE,
    };
    let limit = limit.max(LIMIT_MIN);
    let first = job.part().n;
    if first == 1 && job.part().media.is_empty() {
        return render(adapter, &job.delivery.markdown, Some(limit), first).await;
    }
    let media = job.part().media.clone();
    let text: String = rest(job).iter().map(|part| part.source.as_str()).collect();
    let mut parts: Vec<NewPart> =
        cut(&text, limit, &declared.unit).into_iter().zip(first..).map(|(piece, n)| NewPart::plain(n, piece)).collect();
    if let Some(part) = parts.first_mut() {
        part.media = media;
    }
    parts
}

fn rest(job: &Job) -> Vec<NewPart> {
    let from = job.part().n;
    job.delivery.parts.iter().filter(|part| part.n >= from).map(as_new).collect()
}

fn as_new(part: &OwedPart) -> NewPart {
    NewPart {
        n: part.n,
        text: part.text.clone(),
        format: part.format.clone(),
        source: part.source.clone(),
        media: part.media.clone(),
        key: part.key.clone(),
    }
}

/// Cuts a plain text into pieces within the limit, preferably at line ends and spaces.
fn cut(text: &str, limit: u32, counted: &TextUnit) -> Vec<String> {
    let counted = unit(counted);
    let fits = |piece: &str| measure(piece, counted) <= limit as usize;
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for word in text.split_inclusive([' ', '\n']) {
        if !fits(&format!("{piece}{word}")) && !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
        }
        if fits(word) {
            piece.push_str(word);
            continue;
        }
        for c in word.chars() {
            piece.push(c);
            if !fits(&piece) {
                piece.pop();
                pieces.push(std::mem::replace(&mut piece, c.to_string()));
            }
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_fit_and_join_to_the_whole() {
        let text = "one two three\nfour 🦀🦀🦀🦀🦀🦀 five";
        for limit in 1..20 {
            let pieces = cut(text, limit, &TextUnit::Scalars);
            assert_eq!(pieces.concat(), text);
            assert!(pieces.iter().all(|piece| piece.chars().count() <= limit as usize), "{limit}: {pieces:?}");
        }
        assert_eq!(cut("one two three", 8, &TextUnit::Scalars), ["one two ", "three"]);
    }

    #[test]
    fn the_limit_counts_in_the_unit_of_the_platform() {
        assert!(cut("🦀🦀🦀", 4, &TextUnit::Utf16).iter().all(|piece| piece.encode_utf16().count() <= 4));
    }
}
