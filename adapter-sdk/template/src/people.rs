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

/// The longest answer in one piece, in bytes.
pub const TEXT_BYTES_MAX: u64 = 1000;

/// The longest line that is read, in bytes; what is longer counts as several.
const LINE_BYTES_MAX: u64 = 4000;

/// How many people may be connected at once.
const PEOPLE_MAX: usize = 100;

/// How long somebody has to say who they are.
const NAME_WAIT: Duration = Duration::from_secs(60);

/// How long somebody may take to read a line.
const READ_WAIT: Duration = Duration::from_secs(10);

/// The way to somebody. One writes at a time.
type Writer = Arc<tokio::sync::Mutex<OwnedWriteHalf>>;

/// Who is connected, by name. All clones are one.
#[derive(Clone, Default)]
pub struct People(Arc<Mutex<BTreeMap<String, Writer>>>);

/// Somebody who is connected; gone from the list once this is dropped.
pub struct Person {
    name: String,
    since_ms: i64,
    lines: u64,
    reader: BufReader<OwnedReadHalf>,
    people: People,
}

/// One line.
pub struct Said {
    /// The same for this line only, for ever: the platform has no ids, so it is who, since when, and the number.
    pub id: String,
    pub who: String,
    pub room: Option<String>,
    pub text: String,
}

/// What became of a text.
pub enum Told {
    Somebody,
    Nobody,
    /// The connection broke while it was written.
    Perhaps(io::Error),
}

impl People {
    /// Asks who it is. `None`: somebody who does not say, or says a name that is taken.
    pub async fn enter(&self, stream: TcpStream, since_ms: i64) -> Option<Person> {
        let (reader, writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        let name = timeout(NAME_WAIT, line(&mut reader)).await.ok()??;
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        let why = {
            let mut people = self.lock();
            if people.contains_key(&name) {
                "this name is taken; connect again and say another one\n"
            } else if people.len() >= PEOPLE_MAX {
                "there is no room for one more; connect again later\n"
            } else {
                people.insert(name.clone(), writer);
                drop(people);
                return Some(Person { name, since_ms, lines: 0, reader, people: self.clone() });
            }
        };
        // Whoever is turned away may be gone already.
        let _ = write(writer, why.to_owned()).await;
        None
    }

    /// Tells everybody in a room, or the one person of this name.
    pub async fn tell(&self, room: Option<&str>, name: &str, text: &str) -> Told {
        let line = room.map_or_else(|| format!("{text}\n"), |room| format!("#{room} {text}\n"));
        let writers: Vec<Writer> = match room {
            Some(_) => self.lock().values().cloned().collect(),
            None => self.lock().get(name).cloned().into_iter().collect(),
        };
        let mut told = Told::Nobody;
        for writer in writers {
            // The host may cancel `send` at an await. A task goes on, so that no line is half written.
            let written = tokio::spawn(write(writer, line.clone())).await;
            match written.unwrap_or_else(|error| Err(error.into())) {
                Ok(()) => told = Told::Somebody,
                Err(error) if matches!(told, Told::Nobody) => told = Told::Perhaps(error),
                Err(_) => {}
            }
        }
        told
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Writer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Person {
    /// The next line that says something; `None` once they are gone.
    pub async fn says(&mut self) -> Option<Said> {
        let line = line(&mut self.reader).await?;
        self.lines += 1;
        let (room, text) = match line.strip_prefix('#').and_then(|rest| rest.split_once(' ')) {
            Some((room, text)) if !room.is_empty() => (Some(room.to_owned()), text.to_owned()),
            _ => (None, line),
        };
        let id = format!("{}:{}:{}", self.name, self.since_ms, self.lines);
        Some(Said { id, who: self.name.clone(), room, text })
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        self.people.lock().remove(&self.name);
    }
}

/// The next line that is not empty.
async fn line(reader: &mut BufReader<OwnedReadHalf>) -> Option<String> {
    loop {
        let mut line = Vec::new();
        // A connection that breaks is one that ended.
        if reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await.ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&line);
        if !line.trim().is_empty() {
            return Some(line.trim().to_owned());
        }
    }
}

/// Writes a line, or ends the connection: half a line would become a part of the next one.
async fn write(writer: Writer, line: String) -> io::Result<()> {
    let mut writer = writer.lock().await;
    let written = timeout(READ_WAIT, writer.write_all(line.as_bytes())).await;
    let written = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    if written.is_err() {
        // It is broken; there is nothing more to do about it.
        let _ = writer.shutdown().await;
    }
    written
}
