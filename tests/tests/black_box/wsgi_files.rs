//! Files that a WSGI application passes to `wsgi.file_wrapper`: the server sends them, so a slow
//! client does not block a process.

use crate::mounts::site;
use pinion_tests::body::noise;
use pinion_tests::client::Client;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

/// More than the kernel takes for a client that does not read.
const FILE_BYTES: usize = 24 << 20;

/// `/file` responds with the file that the query names, from a position and perhaps with a length.
const APPLICATION: &str = r"
import os

def app(environ, start_response):
    fields = [('Content-Type', 'application/octet-stream')]
    if environ['PATH_INFO'] != '/file':
        start_response('200 OK', fields)
        return [str(os.getpid()).encode()]
    name, position, length = environ['QUERY_STRING'].split('&')
    if length:
        fields.append(('Content-Length', length))
    start_response('200 OK', fields)
    file = open(os.path.join(os.path.dirname(__file__), name), 'rb')
    file.seek(int(position))
    return environ['wsgi.file_wrapper'](file, 8192)
";

fn application(name: &str, keys: &str) -> Folder {
    let folder = site(name);
    folder.write("app/app.py", APPLICATION);
    folder.write("app/large", noise(FILE_BYTES));
    folder.write("app/small", noise(100));
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    // Its process is that of another user, whose files this server may not even be able to read.
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    let path = folder.join("app");
    folder.write(
        "p.toml",
        format!(
            "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n[[site.mount]]\npath = \"/\"\n\
             wsgi = \"app:app\"\npython = \"/usr/bin/python3\"\npython-folder = {path:?}\n\
             {user}{keys}"
        ),
    );
    folder
}

fn start(folder: &Folder, protocol: Protocol, io: Io) -> Server {
    let way = Way { io, protocol, form: Form::Folder };
    Start::site(&folder.join("p.toml")).in_way(way).start()
}

#[test]
fn files_are_whole_over_all_protocols() {
    let folder = application("wsgi-files", "");
    let large = noise(FILE_BYTES);
    for protocol in Protocol::SPOKEN {
        for io in Io::BOTH {
            let server = start(&folder, *protocol, io);
            let mut client = server.client();
            for (query, content) in [
                // The first one requests the channel, and is read by the process.
                ("large&0&", &large[..]),
                ("large&0&", &large),
                ("small&0&", &noise(100)),
                ("large&20000000&", &large[20_000_000..]),
                ("large&5000&100000", &large[5000..105_000]),
            ] {
                let request = Request::get(&format!("/file?{query}"));
                let response = client.exchange(&request);
                assert_eq!(response.status, 200, "{query} over {protocol:?}");
                assert!(response.body == content, "{query} over {protocol:?} and {io:?}");
                let length = response.field("content-length").map(str::to_owned);
                assert_eq!(length, Some(content.len().to_string()), "{query}");
                let head = client.exchange(&request.method("HEAD"));
                assert_eq!((head.status, head.body.len()), (200, 0), "HEAD {query}");
            }
            server.stop();
        }
    }
}

/// The process has one thread, and the clients take nothing.
#[test]
fn a_slow_download_does_not_occupy_a_process() {
    let folder = application("wsgi-files-slow", "");
    let large = noise(FILE_BYTES);
    for protocol in Protocol::SPOKEN {
        for io in Io::BOTH {
            let server = start(&folder, *protocol, io);
            let first = server.get("/file?large&0&200000");
            assert!(first.body == large[..200_000]);
            let mut slow: Vec<_> = (0..5)
                .map(|_| {
                    let mut client = Client::with_little_room(&server);
                    let open = client.begin(&Request::get("/file?large&0&"));
                    (client, open)
                })
                .collect();
            for _ in 0..20 {
                assert_eq!(server.get("/pid").status, 200);
            }
            // Some leave, and the others get all of it.
            slow.truncate(2);
            for (mut client, open) in slow {
                assert!(client.finish(open, b"").body == large, "over {protocol:?} and {io:?}");
            }
            server.stop();
        }
    }
}

/// With several threads, each file is sent to its own client.
#[test]
fn files_of_several_threads_are_not_mixed_up() {
    let folder = application("wsgi-files-threads", "python-threads = 4\n");
    let large = noise(FILE_BYTES);
    for io in Io::BOTH {
        let server = start(&folder, Protocol::Http1, io);
        std::thread::scope(|scope| {
            for client in 0..8 {
                let (server, large) = (&server, &large);
                scope.spawn(move || {
                    let mut connection = server.client();
                    for round in 0..40 {
                        let position = (client * 40 + round) * 60_000;
                        let query = format!("/file?large&{position}&50000");
                        let response = connection.exchange(&Request::get(&query));
                        assert!(response.body == large[position..position + 50_000], "{query}");
                    }
                });
            }
        });
        server.stop();
    }
}
