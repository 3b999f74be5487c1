//! The host's side of `adapter-sdk/FRAMES.md`, implemented from that page alone.

use std::{
    io::{Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

const CALL: u8 = 1;
const REPLY: u8 = 2;
const HELLO: u8 = 5;

/// An adapter in a separate process.
pub struct Isolated {
    child: Child,
    socket: UnixStream,
    next: u64,
}

impl Isolated {
    /// Starts `library` with the runner of `host`.
    pub fn start(host: &Path, library: &Path) -> Self {
        let (socket, theirs) = UnixStream::pair().expect("a socket pair");
        let child = Command::new(host)
            .arg("adapter-runner")
            .arg(library)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .expect("the runner starts");
        let mut isolated = Self { child, socket, next: 1 };
        let hello = json!({ "protocol": 1, "envelope": { "host": { "sdk": "1.0.0", "features": [] }, "instance": "bench", "config": {} },
            "create_ms": 1000, "log_level": 1, "origin": library });
        isolated.write(HELLO, 0, "", hello.to_string().as_bytes());
        let answer = isolated.read_until(|kind, _| kind == HELLO);
        assert_eq!(answer.1, 0, "hello: {}", String::from_utf8_lossy(&answer.2));
        isolated
    }

    /// Sends one call and returns its reply.
    pub fn call(&mut self, method: &str, payload: &[u8]) -> (i32, Vec<u8>) {
        let id = self.next;
        self.next += 1;
        self.write(CALL, id, method, payload);
        let (_, status, payload) = self.read_until(|kind, got| kind == REPLY && got == id);
        (status, payload)
    }

    fn write(&mut self, kind: u8, id: u64, method: &str, payload: &[u8]) {
        let length = u32::try_from(15 + method.len() + payload.len()).expect("a small frame");
        let mut frame = Vec::with_capacity(length as usize + 4);
        frame.extend_from_slice(&length.to_le_bytes());
        frame.push(kind);
        frame.extend_from_slice(&id.to_le_bytes());
        frame.extend_from_slice(&0i32.to_le_bytes());
        frame.extend_from_slice(&u16::try_from(method.len()).expect("a short name").to_le_bytes());
        frame.extend_from_slice(method.as_bytes());
        frame.extend_from_slice(payload);
        self.socket.write_all(&frame).expect("the runner listens");
    }

    /// Reads frames until one matches, and answers calls of the adapter with an empty object.
    fn read_until(&mut self, wanted: impl Fn(u8, u64) -> bool) -> (u64, i32, Vec<u8>) {
        loop {
            let mut length = [0; 4];
            self.socket.read_exact(&mut length).expect("the runner lives");
            let mut rest = vec![0; u32::from_le_bytes(length) as usize];
            self.socket.read_exact(&mut rest).expect("the runner lives");
            let kind = rest[0];
            let id = u64::from_le_bytes(rest[1..9].try_into().expect("eight bytes"));
            let status = i32::from_le_bytes(rest[9..13].try_into().expect("four bytes"));
            let method = usize::from(u16::from_le_bytes(rest[13..15].try_into().expect("two bytes")));
            if wanted(kind, id) {
                return (id, status, rest.split_off(15 + method));
            }
            if kind == CALL {
                self.write(REPLY, id, "", b"{}");
            }
        }
    }

    /// Returns the process id of the runner.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Isolated {
    fn drop(&mut self) {
        // The process also ends with its socket; the kill is a precaution.
        if self.child.kill().is_ok() {
            let _reaped = self.child.wait();
        }
    }
}

/// Returns the payload of a `send`, about 512 bytes.
pub fn payload() -> Vec<u8> {
    let value: Value = json!({ "delivery": 1, "part": 1, "of": 1, "key": "bench", "purpose": "reply", "chat": { "type": "dm", "id": "7" },
        "text": "x".repeat(150), "format": "plain", "source": "x".repeat(150), "silent": false });
    value.to_string().into_bytes()
}
