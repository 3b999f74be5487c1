//! Decoder for compressed bodies. Some endpoints compress although the request excludes it.

use std::io::{Error, ErrorKind, Read, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Bytes at the beginning of a body that identify the compression.
pub(in crate::openai) const START_BYTES: usize = 4;

/// Input buffer of the brotli decoder, in bytes.
const BROTLI_ROOM: usize = 4096;

/// The decoder of one body.
pub(in crate::openai) enum Decoder {
    /// No compression.
    Plain,
    /// `gzip`.
    Gzip(MultiGzDecoder<Bounded>),
    /// `deflate` as defined by the standard.
    Zlib(ZlibDecoder<Bounded>),
    /// `deflate` as sent by some servers, without the zlib header.
    Deflate(DeflateDecoder<Bounded>),
    /// `br`.
    Brotli(Box<DecompressorWriter<Bounded>>),
    /// `zstd`, decoded after the last byte.
    Zstd(Bounded),
}

/// A buffer of decoded bytes with a size limit.
#[derive(Debug)]
pub(in crate::openai) struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(Error::new(ErrorKind::FileTooLarge, "the body exceeds the size limit"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Decoder {
    /// Returns the decoder of a body. The first bytes take precedence over `Content-Encoding`.
    pub(in crate::openai) fn of(encoding: &str, start: &[u8], bytes_max: usize) -> Self {
        let out = || Bounded { bytes: Vec::new(), bytes_max };
        let encoding = encoding.trim().to_ascii_lowercase();
        if start.starts_with(b"\x1f\x8b") {
            return Self::Gzip(MultiGzDecoder::new(out()));
        }
        if start.starts_with(b"\x28\xb5\x2f\xfd") {
            return Self::Zstd(out());
        }
        let is_zlib = matches!(start, [first, second, ..]
            if first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0);
        match encoding.as_str() {
            "deflate" if is_zlib => Self::Zlib(ZlibDecoder::new(out())),
            "deflate" if !is_text(start) => Self::Deflate(DeflateDecoder::new(out())),
            "br" if !is_text(start) => Self::Brotli(Box::new(DecompressorWriter::new(out(), BROTLI_ROOM))),
            _ => Self::Plain,
        }
    }

    /// Decodes the next bytes.
    ///
    /// # Errors
    ///
    /// The bytes are invalid, or the decoded size exceeds the limit.
    pub(in crate::openai) fn feed(&mut self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        macro_rules! through {
            ($decoder:expr) => {{
                $decoder.write_all(bytes)?;
                $decoder.flush()?;
                Ok(std::mem::take(&mut $decoder.get_mut().bytes))
            }};
        }
        match self {
            Self::Plain => Ok(bytes.to_vec()),
            Self::Gzip(decoder) => through!(decoder),
            Self::Zlib(decoder) => through!(decoder),
            Self::Deflate(decoder) => through!(decoder),
            Self::Brotli(decoder) => through!(decoder),
            Self::Zstd(compressed) => compressed.write_all(bytes).map(|()| Vec::new()),
        }
    }

    /// Returns the bytes that can be decoded only at the end of the body.
    ///
    /// # Errors
    ///
    /// As for [`Self::feed`].
    pub(in crate::openai) fn finish(&mut self) -> std::io::Result<Vec<u8>> {
        let Self::Zstd(compressed) = self else { return Ok(Vec::new()) };
        let bytes = std::mem::take(&mut compressed.bytes);
        let mut rest = bytes.as_slice();
        let mut decoded = Bounded { bytes: Vec::new(), bytes_max: compressed.bytes_max };
        // A body may consist of several frames.
        while !rest.is_empty() {
            let decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest);
            let decoder = decoder.map_err(|error| Error::new(ErrorKind::InvalidData, error.to_string()))?;
            let left = compressed.bytes_max.saturating_sub(decoded.bytes.len());
            std::io::copy(&mut decoder.take(left as u64 + 1), &mut decoded)?;
        }
        Ok(decoded.bytes)
    }
}

/// Returns true if a body begins like an uncompressed answer, regardless of its header.
fn is_text(start: &[u8]) -> bool {
    [b"data".as_slice(), b"{\"", b"{ ", b"{\n", b": ", b"even"].iter().any(|begin| start.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hello hello hello\"}}]}\n\n";

    /// `TEXT` in the output format of brotli and Zstandard encoders, without compression.
    fn brotli() -> Vec<u8> {
        let length = TEXT.len() - 1;
        // A window of 16 bits, one uncompressed block, and the empty last block.
        let header = length << 4 | 1 << 20;
        let mut bytes = vec![header as u8, (header >> 8) as u8, (header >> 16) as u8];
        bytes.extend_from_slice(TEXT.as_bytes());
        bytes.push(3);
        bytes
    }

    fn zstd() -> Vec<u8> {
        let mut bytes = b"\x28\xb5\x2f\xfd\x20".to_vec();
        bytes.push(TEXT.len() as u8);
        let header = (TEXT.len() as u32) << 3 | 1;
        bytes.extend_from_slice(&header.to_le_bytes()[..3]);
        bytes.extend_from_slice(TEXT.as_bytes());
        bytes
    }

    fn encoded<W>(mut encoder: W, finish: impl FnOnce(W) -> std::io::Result<Vec<u8>>) -> Vec<u8>
    where
        W: std::io::Write,
    {
        encoder.write_all(TEXT.as_bytes()).unwrap();
        finish(encoder).unwrap()
    }

    #[test]
    fn every_encoding_is_read_in_pieces() {
        let best = Compression::best;
        let bodies = [
            ("gzip", encoded(GzEncoder::new(Vec::new(), best()), GzEncoder::finish)),
            ("", encoded(GzEncoder::new(Vec::new(), best()), GzEncoder::finish)),
            ("deflate", encoded(ZlibEncoder::new(Vec::new(), best()), ZlibEncoder::finish)),
            ("deflate", encoded(DeflateEncoder::new(Vec::new(), best()), DeflateEncoder::finish)),
            ("br", brotli()),
            ("zstd", zstd()),
            ("gzip", TEXT.as_bytes().to_vec()),
            ("br", TEXT.as_bytes().to_vec()),
            ("identity", TEXT.as_bytes().to_vec()),
        ];
        for (encoding, body) in bodies {
            for size in [1, 7, 1000] {
                let mut decoder = Decoder::of(encoding, &body[..START_BYTES], 1024);
                let mut text = Vec::new();
                for piece in body.chunks(size) {
                    text.extend(decoder.feed(piece).unwrap());
                }
                text.extend(decoder.finish().unwrap());
                assert_eq!(String::from_utf8_lossy(&text), TEXT, "{encoding} in pieces of {size}");
            }
        }
    }

    #[test]
    fn a_small_body_cannot_become_a_large_one() {
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        bomb.write_all(&vec![0; 1 << 20]).unwrap();
        let bomb = bomb.finish().unwrap();
        let mut decoder = Decoder::of("gzip", &bomb[..START_BYTES], 64 << 10);
        assert_eq!(decoder.feed(&bomb).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}
