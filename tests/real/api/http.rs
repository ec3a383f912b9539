//! What the APIs need of HTTP: one request to a connection.

use std::io::{BufRead, ErrorKind, Write};
use std::net::TcpStream;

/// The headers of a request, with their names in small letters.
pub fn headers(reader: &mut impl BufRead) -> std::io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
            }
            None => return Ok(headers),
        }
    }
}

/// The body of a request.
pub fn body(reader: &mut impl BufRead, headers: &[(String, String)]) -> std::io::Result<Vec<u8>> {
    let header = |name: &str| headers.iter().find(|(known, _)| known == name);
    let bad = || std::io::Error::from(ErrorKind::InvalidData);
    let mut body = Vec::new();
    if header("transfer-encoding").is_some_and(|(_, value)| value == "chunked") {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).map_err(|_| bad())?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk)?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
    if let Some((_, length)) = header("content-length") {
        body.resize(length.parse().map_err(|_| bad())?, 0);
        reader.read_exact(&mut body)?;
    }
    Ok(body)
}

/// Sends an answer, and ends the connection.
pub fn send(mut stream: &TcpStream, kind: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )?;
    stream.flush()
}
