//! WebSockets whose applications accept them late: the client has ended its side meanwhile, or the
//! server has begun to stop.

use crate::mounts::site;
use bytes::Bytes;
use pinion_tests::client::tunnel::TunnelClient;
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Signal, geteuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use tokio::runtime::Runtime;

/// `/chat/late` waits for a file, accepts, and notes how it ends.
const APPLICATION: &str = r#"
import asyncio, os

gate = os.path.join(os.path.dirname(__file__), 'gate')
notes = ['begun']

async def app(scope, receive, send):
    if scope['type'] == 'http':
        await send({'type': 'http.response.start', 'status': 200,
                    'headers': [(b'content-type', b'text/plain')]})
        return await send({'type': 'http.response.body', 'body': notes[-1].encode()})
    assert scope['type'] == 'websocket'
    await receive()
    notes.append('connected')
    while not os.path.exists(gate):
        await asyncio.sleep(0.01)
    await send({'type': 'websocket.accept'})
    message = await receive()
    notes.append('%s %d' % (message['type'], message['code']))
    print('the end:', notes[-1])
"#;

fn application() -> Folder {
    let folder = site("asgi-late-websockets");
    folder.write("app/main.py", APPLICATION);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    let path = folder.join("app");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    let mount = format!(
        "[[site]]\npath = \"public\"\ninclude = \"*.php\"\n\
         [[site.mount]]\npath = \"/chat\"\nasgi = \"main:app\"\n\
         python = \"/usr/bin/python3\"\npython-folder = {path:?}\n{user}"
    );
    folder.write("p.toml", mount);
    folder
}

fn start(folder: &Folder, io: Io, protocol: Protocol) -> Server {
    let way = Way { io, protocol, form: Form::Folder };
    Start::site(&folder.join("p.toml")).in_way(way).start()
}

/// An extended CONNECT (RFC 8441) whose stream the client has ended before the application accepts.
#[test]
fn an_application_that_accepts_late_gets_the_client_disconnect() {
    let folder = application();
    for io in Io::BOTH {
        let server = start(&folder, io, Protocol::Http2Clear);
        let runtime = Runtime::new().expect("a runtime");
        let mut client = TunnelClient::open(&server, &runtime);
        let mut response = None;
        runtime.block_on(async {
            assert!(client.is_announced().await);
            let TunnelClient::Http2(requests, scheme) = &mut client else { panic!("HTTP/2") };
            let request = http::Request::builder()
                .method("CONNECT")
                .uri(format!("{scheme}://localhost/chat/late"))
                .header("sec-websocket-version", "13")
                .extension(h2::ext::Protocol::from("websocket"))
                .body(())
                .expect("a request");
            let (coming, mut stream) = requests.send_request(request, false).expect("a stream");
            response = Some(coming);
            stream.send_data(Bytes::new(), true).expect("an open stream");
            // The server has read the end when it has read the next request of the connection.
            assert!(!client.get("/chat/x").await.is_empty());
        });
        let note = || server.get("/chat/x").text().to_owned();
        wait_for("the request", || (note() == "connected").then_some(()));
        folder.write("app/gate", "");
        wait_for("the message", || (note() == "websocket.disconnect 1006").then_some(()));
        drop(response);
        drop(client);
        fs::remove_file(folder.join("app/gate")).expect("removed");
        server.stop();
    }
}

/// The server does not wait for a WebSocket that nothing ends.
#[test]
fn an_application_that_accepts_during_a_stop_gets_code_1001() {
    let folder = application();
    for io in Io::BOTH {
        let mut server = start(&folder, io, Protocol::Http1);
        let mut connection = server.connect();
        connection.send(
            "GET /chat/late HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Version: 13\r\n\r\n",
        );
        let note = || server.get("/chat/x").text().to_owned();
        wait_for("the request", || (note() == "connected").then_some(()));
        server.signal(Signal::TERM);
        server.wait_for_line(0, |line| line.starts_with("stopping"));
        folder.write("app/gate", "");
        server.wait_for_line(0, |line| line.contains("the end: websocket.disconnect 1001"));
        // The client closes it, too (RFC 6455 §5.5.1).
        connection.send(b"\x88\x82\0\0\0\0\x03\xe9");
        let received = connection.rest();
        let text = received.escape_ascii().to_string();
        assert!(received.starts_with(b"HTTP/1.1 101 "), "{text}");
        // A frame that closes, with the code 1001 (RFC 6455 §7.4.1).
        assert!(received.ends_with(b"\r\n\r\n\x88\x02\x03\xe9"), "{text}");
        drop(connection);
        assert!(server.wait().success());
        fs::remove_file(folder.join("app/gate")).expect("removed");
    }
}
