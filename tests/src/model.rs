//! A model server for tests, which answers each question with one call of the `terminal` tool and then with its
//! result.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use serde_json::{Value, json};

/// A server of chat completions on loopback. Runs until the test process ends.
pub struct Model {
    address: String,
}

impl Model {
    /// Starts a model that runs `command` in its tool once per question and then repeats the result.
    pub fn runs(command: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let command = command.to_owned();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let command = command.clone();
                // A client that disconnects early gets no answer.
                thread::spawn(move || answer(stream, &command).ok());
            }
        });
        Self { address }
    }

    /// Returns the agent section for this model.
    pub fn section(&self) -> String {
        format!(
            "[agent]\nruntime = \"openai\"\nbase_url = \"http://{}/v1\"\nmodel = \"m\"\napi_key = \"sk-test-000000\"\n\
             tools = [\"terminal\"]\n\n",
            self.address
        )
    }
}

fn answer(mut stream: TcpStream, command: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or_default();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let last = asked["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    let (delta, reason) = if last["role"] == "tool" {
        (json!({ "role": "assistant", "content": last["content"] }), "stop")
    } else {
        let function = json!({ "name": "terminal", "arguments": json!({ "command": command }).to_string() });
        let call = json!({ "index": 0, "id": "call_1", "type": "function", "function": function });
        (json!({ "role": "assistant", "tool_calls": [call] }), "tool_calls")
    };
    let chunk = |delta: &Value, reason: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        let chunk =
            json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice] });
        format!("data: {chunk}\n\n")
    };
    let events = format!("{}{}data: [DONE]\n\n", chunk(&delta, None), chunk(&json!({}), Some(reason)));
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{events}",
        events.len()
    )
}
