//! The frames between the host and an adapter in a process of its own.
//!
//! A frame is `u32` length of the rest, `u8` kind, `u64` id, `i32` status, `u16` length of the method, the method, the
//! payload; numbers are little endian. Each side sends `hello` first. An unknown kind is skipped. A malformed frame
//! ends the link, because the frame boundaries are lost.

use std::io::{Read, Write};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Version of the frames, sent in `hello`.
pub const PROTOCOL: u32 = 1;

/// The longest rest of a frame, in bytes.
pub const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes of kind, id, status and method length.
const HEADER_BYTES: usize = 15;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A call of `method` with number `id`.
    Call,
    /// The answer to call `id`.
    Reply,
    /// The caller no longer waits for call `id`.
    Cancel,
    /// A log record: the level in `status`, the target in `method`.
    Log,
    /// The first frame of each side.
    Hello,
    /// A kind of a later version.
    Other(u8),
}

impl FrameKind {
    fn number(self) -> u8 {
        match self {
            Self::Call => 1,
            Self::Reply => 2,
            Self::Cancel => 3,
            Self::Log => 4,
            Self::Hello => 5,
            Self::Other(number) => number,
        }
    }

    fn of(number: u8) -> Self {
        match number {
            1 => Self::Call,
            2 => Self::Reply,
            3 => Self::Cancel,
            4 => Self::Log,
            5 => Self::Hello,
            other => Self::Other(other),
        }
    }
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    pub id: u64,
    pub status: i32,
    pub method: String,
    pub payload: Vec<u8>,
}

/// The reason why bytes are not a valid frame.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The peer closed the connection.
    #[error("the other side closed the connection")]
    Closed,
    /// Reading failed.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
    /// The frame exceeds the limit.
    #[error("a frame of {0} bytes is longer than {FRAME_BYTES_MAX}")]
    TooLong(usize),
    /// Text in the place of a length: the program printed to the frame stream.
    #[error(
        "the program wrote text ({0:?}…) to standard output, which is reserved for frames; write logs to standard error"
    )]
    Text(String),
    /// Shorter than its own header, or with a method that is not UTF-8.
    #[error("malformed frame")]
    Malformed,
}

impl Frame {
    pub fn call(id: u64, method: &str, payload: Vec<u8>) -> Self {
        Self { kind: FrameKind::Call, id, status: 0, method: method.to_owned(), payload }
    }

    pub fn reply(id: u64, status: i32, payload: Vec<u8>) -> Self {
        Self { kind: FrameKind::Reply, id, status, method: String::new(), payload }
    }

    pub fn cancel(id: u64) -> Self {
        Self { kind: FrameKind::Cancel, id, status: 0, method: String::new(), payload: Vec::new() }
    }

    pub fn log(level: u8, target: &str, fields: &str) -> Self {
        let (status, method) = (i32::from(level), target.to_owned());
        Self { kind: FrameKind::Log, id: 0, status, method, payload: fields.as_bytes().to_vec() }
    }

    pub fn hello(status: i32, payload: Vec<u8>) -> Self {
        Self { kind: FrameKind::Hello, id: 0, status, method: String::new(), payload }
    }

    /// Returns `true` if the frame is within the size limits.
    pub fn fits(&self) -> bool {
        self.method.len() <= usize::from(u16::MAX)
            && HEADER_BYTES + self.method.len() + self.payload.len() <= FRAME_BYTES_MAX
    }

    /// Returns the bytes on the wire. The caller has checked [`fits`](Self::fits).
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 + HEADER_BYTES + self.method.len() + self.payload.len());
        self.encode_into(&mut bytes);
        bytes
    }

    /// Does the same as [`encode`](Self::encode), but appends to `bytes`.
    pub fn encode_into(&self, bytes: &mut Vec<u8>) {
        let rest = HEADER_BYTES + self.method.len() + self.payload.len();
        bytes.extend_from_slice(&u32::try_from(rest).expect("a frame that fits is below 4 GiB").to_le_bytes());
        bytes.push(self.kind.number());
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&self.status.to_le_bytes());
        let method = u16::try_from(self.method.len()).expect("a method that fits is below 64 KiB");
        bytes.extend_from_slice(&method.to_le_bytes());
        bytes.extend_from_slice(self.method.as_bytes());
        bytes.extend_from_slice(&self.payload);
    }

    /// Decodes the part of a frame after its length field.
    pub fn decode(rest: &[u8]) -> Result<Self, FrameError> {
        let (kind, rest) = rest.split_first().ok_or(FrameError::Malformed)?;
        let (id, rest) = rest.split_first_chunk::<8>().ok_or(FrameError::Malformed)?;
        let (status, rest) = rest.split_first_chunk::<4>().ok_or(FrameError::Malformed)?;
        let (length, rest) = rest.split_first_chunk::<2>().ok_or(FrameError::Malformed)?;
        let (method, payload) =
            rest.split_at_checked(usize::from(u16::from_le_bytes(*length))).ok_or(FrameError::Malformed)?;
        Ok(Self {
            kind: FrameKind::of(*kind),
            id: u64::from_le_bytes(*id),
            status: i32::from_le_bytes(*status),
            method: std::str::from_utf8(method).map_err(|_| FrameError::Malformed)?.to_owned(),
            payload: payload.to_vec(),
        })
    }
}

/// Waiting frames are written together up to this many bytes, which saves system calls.
pub const WRITE_BYTES_MAX: usize = 64 * 1024;

/// Reads one frame, blocking; for the child process.
pub fn read(from: &mut impl Read) -> Result<Frame, FrameError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(closed)?;
    let mut rest = vec![0; checked(length)?];
    from.read_exact(&mut rest).map_err(closed)?;
    Frame::decode(&rest)
}

/// Decodes one frame and encodes it again; the entry point of the fuzz tests.
#[doc(hidden)]
pub fn reread(mut bytes: &[u8]) -> Option<Vec<u8>> {
    read(&mut bytes).ok().map(|frame| frame.encode())
}

/// Writes one frame, blocking; for the child process.
pub fn write(to: &mut impl Write, frame: &Frame) -> std::io::Result<()> {
    to.write_all(&frame.encode())
}

/// Reads one frame; for the host's tasks. Not cancel-safe.
pub async fn read_async(from: &mut (impl AsyncRead + Unpin)) -> Result<Frame, FrameError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await.map_err(closed)?;
    let mut rest = vec![0; checked(length)?];
    from.read_exact(&mut rest).await.map_err(closed)?;
    Frame::decode(&rest)
}

fn checked(length: [u8; 4]) -> Result<usize, FrameError> {
    let bytes = length;
    let length = usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES_MAX {
        if bytes.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
            return Err(FrameError::Text(bytes.map(char::from).iter().collect()));
        }
        return Err(FrameError::TooLong(length));
    }
    if length < HEADER_BYTES {
        return Err(FrameError::Malformed);
    }
    Ok(length)
}

fn closed(error: std::io::Error) -> FrameError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::BrokenPipe => {
            FrameError::Closed
        }
        _ => FrameError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_frame() -> impl Strategy<Value = Frame> {
        (any::<u8>(), any::<u64>(), any::<i32>(), ".{0,40}", proptest::collection::vec(any::<u8>(), 0..200)).prop_map(
            |(kind, id, status, method, payload)| Frame { kind: FrameKind::of(kind), id, status, method, payload },
        )
    }

    proptest! {
        #[test]
        fn a_frame_is_read_as_it_was_written(frame in any_frame()) {
            let bytes = frame.encode();
            prop_assert_eq!(&read(&mut bytes.as_slice()).unwrap(), &frame);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&mut bytes.as_slice());
            let _ = Frame::decode(&bytes);
        }

        #[test]
        fn a_frame_that_is_cut_off_is_no_frame(frame in any_frame(), at in any::<prop::sample::Index>()) {
            let bytes = frame.encode();
            let cut = &bytes[..at.index(bytes.len())];
            prop_assert!(read(&mut &cut[..]).is_err());
        }
    }

    #[test]
    fn a_frame_beyond_the_bound_is_refused_before_memory_is_taken() {
        let bytes = u32::MAX.to_le_bytes();
        assert!(matches!(read(&mut bytes.as_slice()), Err(FrameError::TooLong(_))));
        let too_long = Frame::reply(1, 0, vec![0; FRAME_BYTES_MAX]);
        assert!(!too_long.fits());
    }

    #[test]
    fn a_method_longer_than_the_frame_is_refused() {
        let mut bytes = Frame::call(1, "send", Vec::new()).encode();
        bytes[4 + 13] = 200;
        assert!(matches!(read(&mut bytes.as_slice()), Err(FrameError::Malformed)));
    }
}
