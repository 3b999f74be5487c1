//! An HTTP proxy that is the only way to the servers of a test.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

/// Starts a proxy that knows these names and the addresses behind them. Returns its address, and the first line of each
/// request.
pub fn proxy(ways: Vec<(&'static str, String)>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, lines) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (tell, ways) = (tell.clone(), ways.clone());
            thread::spawn(move || pass(stream, &ways, &tell));
        }
    });
    (address, lines)
}

fn pass(mut client: TcpStream, ways: &[(&str, String)], tell: &mpsc::Sender<String>) -> Option<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let line = head.lines().next()?.to_owned();
    let (name, address) = ways.iter().find(|(name, _)| line.contains(name))?;
    let mut server = TcpStream::connect(address).ok()?;
    // The receiver may be gone.
    let _ = tell.send(line.clone());
    match line.starts_with("CONNECT ") {
        true => client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?,
        // As many proxies do: what a hop asks of the next one is not passed on.
        false => {
            let kept: Vec<&str> =
                head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("upgrade")).collect();
            let head = kept.join("\r\n").replacen(&format!("http://{name}"), "", 1) + "\r\n";
            server.write_all(head.as_bytes()).ok()?;
        }
    }
    let (mut from_client, mut to_server) = (client.try_clone().ok()?, server.try_clone().ok()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let _ = std::io::copy(&mut server, &mut client);
    let _ = client.shutdown(Shutdown::Both);
    Some(())
}
