//! The platform: lines over TCP. A real adapter has its platform's client here.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_adapter_sdk::tokio;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// The maximum length of an answer in one piece, in bytes.
pub const TEXT_BYTES_MAX: u64 = 1000;

/// The maximum length of a line, in bytes. A longer line is split into several.
const LINE_BYTES_MAX: u64 = 4000;

/// The maximum number of people connected at the same time.
const PEOPLE_MAX: usize = 100;

/// The time in which a new connection must send a name.
const NAME_WAIT: Duration = Duration::from_secs(60);

/// The time in which a person must read a line.
const READ_WAIT: Duration = Duration::from_secs(10);

/// The sending side of a connection. The lock lets one task write at a time.
type Writer = Arc<tokio::sync::Mutex<OwnedWriteHalf>>;

/// The connected people by name. All clones share one list.
#[derive(Clone, Default)]
pub struct People(Arc<Mutex<BTreeMap<String, Writer>>>);

/// A connected person. Dropping it removes the person from the list.
pub struct Person {
    name: String,
    since_ms: i64,
    lines: u64,
    reader: BufReader<OwnedReadHalf>,
    people: People,
}

/// A line that a person sent.
pub struct Line {
    /// A unique, permanent id. The platform has no message ids, so it consists of the name,
    /// the connection time and a counter.
    pub id: String,
    pub who: String,
    pub room: Option<String>,
    pub text: String,
}

/// The result of sending a text.
pub enum Delivery {
    Somebody,
    Nobody,
    /// The connection broke during the write.
    Perhaps(io::Error),
}

impl People {
    /// Reads the name of a new connection. `None` if no name arrives in time or the name is taken.
    pub async fn enter(&self, stream: TcpStream, since_ms: i64) -> Option<Person> {
        let (reader, writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let name = timeout(NAME_WAIT, line(&mut reader)).await.ok()??;
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        let why = {
            let mut people = self.lock();
            if people.contains_key(&name) {
                "this name is taken; connect again with another name\n"
            } else if people.len() >= PEOPLE_MAX {
                "too many connections; try again later\n"
            } else {
                people.insert(name.clone(), writer);
                drop(people);
                return Some(Person { name, since_ms, lines: 0, reader, people: self.clone() });
            }
        };
        // The refused connection may be closed already.
        let _ = write(writer, why.to_owned()).await;
        None
    }

    /// Sends a text to everybody in a room, or to the person with this name.
    pub async fn tell(&self, room: Option<&str>, name: &str, text: &str) -> Delivery {
        let line = room.map_or_else(|| format!("{text}\n"), |room| format!("#{room} {text}\n"));
        let writers: Vec<Writer> = match room {
            Some(_) => self.lock().values().cloned().collect(),
            None => self.lock().get(name).cloned().into_iter().collect(),
        };
        let mut delivery = Delivery::Nobody;
        for writer in writers {
            // The host may cancel `send` at any await. The write runs in its own task, so
            // that it never ends inside a line.
            let written = tokio::spawn(write(writer, line.clone())).await;
            match written.unwrap_or_else(|error| Err(error.into())) {
                Ok(()) => delivery = Delivery::Somebody,
                Err(error) if matches!(delivery, Delivery::Nobody) => delivery = Delivery::Perhaps(error),
                Err(_) => {}
            }
        }
        delivery
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Writer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Person {
    /// Returns the next line with text; `None` after the connection ends.
    pub async fn says(&mut self) -> Option<Line> {
        let line = line(&mut self.reader).await?;
        self.lines += 1;
        let (room, text) = match line.strip_prefix('#').and_then(|rest| rest.split_once(' ')) {
            Some((room, text)) if !room.is_empty() => (Some(room.to_owned()), text.to_owned()),
            _ => (None, line),
        };
        let id = format!("{}:{}:{}", self.name, self.since_ms, self.lines);
        Some(Line { id, who: self.name.clone(), room, text })
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.people.lock().remove(&self.name);
    }
}

/// Returns the next line that is not empty.
async fn line(reader: &mut BufReader<OwnedReadHalf>) -> Option<String> {
    loop {
        let mut line = Vec::new();
        // A broken connection counts as ended.
        if reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await.ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&line);
        if !line.trim().is_empty() {
            return Some(line.trim().to_owned());
        }
    }
}

/// Writes a line. A failed write ends the connection, because the rest of the line would be missing.
async fn write(writer: Writer, line: String) -> io::Result<()> {
    let mut writer = writer.lock().await;
    let written = timeout(READ_WAIT, writer.write_all(line.as_bytes())).await;
    let written = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    if written.is_err() {
        // The connection is broken; an error of the shutdown is irrelevant.
        let _ = writer.shutdown().await;
    }
    written
}
