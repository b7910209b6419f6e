//! Content of any size passes through Python applications in constant memory, in both directions at
//! the same time.

use crate::mounts::site;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::process::geteuid;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;

const PIECE_BYTES: usize = 1 << 20;

/// The number of pieces that are sent and received: 100 MiB.
const PIECES: usize = 100;

/// The peak may grow by this number of bytes: far less than the content, and more than the buffers
/// of a request.
const GROWTH_MAX_BYTES: u64 = 6 << 20;

/// Both applications send back the received content, or report their own peak of memory.
const APPLICATION: &str = r"
import re

def peak():
    return re.search(r'VmHWM:\s*(\d+)', open('/proc/self/status').read()).group(1).encode()

def wsgi(environ, start_response):
    start_response('200 OK', [('Content-Type', 'application/octet-stream')])
    if environ['PATH_INFO'] == '/peak':
        return [peak()]
    return iter(lambda: environ['wsgi.input'].read(50000), b'')

async def asgi(scope, receive, send):
    if scope['type'] != 'http':
        raise NotImplementedError
    fields = [(b'content-type', b'application/octet-stream')]
    await send({'type': 'http.response.start', 'status': 200, 'headers': fields})
    if scope['path'] == '/run/peak':
        await send({'type': 'http.response.body', 'body': peak()})
        return
    more = True
    while more:
        message = await receive()
        more = message['more_body']
        await send({'type': 'http.response.body', 'body': message['body'], 'more_body': more})
";

/// Sends this many pieces, and receives them at the same time.
fn echo(server: &Server, pieces: usize) {
    let mut stream = TcpStream::connect(server.address()).expect("the server accepts");
    let mut sending = stream.try_clone().expect("the same stream");
    let sender = thread::spawn(move || {
        let bytes = pieces * PIECE_BYTES;
        let head = format!(
            "PUT /run/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {bytes}\r\n\r\n"
        );
        sending.write_all(head.as_bytes()).expect("the head goes out");
        let piece = vec![0xff; PIECE_BYTES];
        for _ in 0..pieces {
            sending.write_all(&piece).expect("the server reads");
        }
    });
    let (mut received, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        let bytes = stream.read(&mut buffer).expect("the server sends");
        if bytes == 0 {
            break;
        }
        // Heads and the lines between pieces are ASCII.
        received += buffer[..bytes].iter().filter(|byte| **byte == 0xff).count();
    }
    sender.join().expect("all was sent");
    assert_eq!(received, pieces * PIECE_BYTES);
}

/// Returns the peaks of the server and of the process, in bytes.
fn peaks(server: &Server) -> [u64; 2] {
    let process = server.get("/run/peak").text().parse::<u64>().expect("a number of KiB");
    [server.memory_bytes("VmHWM"), process * 1024]
}

fn start(folder: &Folder, io: Io, interface: &str) -> Server {
    let path = folder.join("app");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    folder.write(
        "p.toml",
        format!(
            "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n[[site.mount]]\npath = \"/run\"\n\
             {interface} = \"app:{interface}\"\npython = \"/usr/bin/python3\"\n\
             python-folder = {path:?}\nbuffer-limit = \"64K\"\n{user}"
        ),
    );
    let way = Way { io, protocol: Protocol::Http1, form: Form::Folder };
    Start::site(&folder.join("p.toml")).in_way(way).start()
}

#[test]
fn content_of_any_size_uses_constant_memory() {
    let folder = site("python-memory");
    folder.write("app/app.py", APPLICATION);
    for interface in ["wsgi", "asgi"] {
        for io in Io::BOTH {
            let server = start(&folder, io, interface);
            echo(&server, 2);
            let before = peaks(&server);
            echo(&server, PIECES);
            let after = peaks(&server);
            for (before, after) in before.iter().zip(after) {
                let grown = after - before;
                assert!(grown < GROWTH_MAX_BYTES, "{interface}, {io:?}: {grown} bytes more");
            }
            server.stop();
        }
    }
}
