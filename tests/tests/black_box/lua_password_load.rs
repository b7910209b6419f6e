//! Hashing a password takes tens of milliseconds by design: a client that sends many of them delays
//! only itself, and their memory does not grow with their number.

use pinion_tests::client::Connection;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use rustix::net::sockopt::set_socket_linger;
use std::time::Duration;

const SCRIPT: &str = r#"
local entered = 0
pinion.get("/hash", function() return assert(pinion.password.hash("secret")) end)
pinion.post("/enter", function(req)
    local is_right = assert(pinion.password.verify("secret", req:body()) ~= nil)
    entered = entered + 1
    return tostring(is_right)
end)
pinion.get("/entered", function() return tostring(entered) end)
pinion.get("/file", function(req, res) res:file("data/large.bin") end)
"#;

/// More logins than are hashed while a file is read.
const LOGINS: usize = 200;
/// Two threads of 19 MiB, and the memory of requests and coroutines.
const MEMORY_MAX_BYTES: u64 = (2 * 19 + 16) << 20;

fn serve(folder: &Folder) -> Server {
    folder.write("data/large.bin", vec![b'x'; 3 << 20]);
    let data = format!("data={}", folder.join("data").display());
    let flags = ["--workers", "1", "--lua-folder", &data];
    Start::serve(&[folder.join("site.lua")]).flags(&flags).start()
}

/// Returns clients that have sent their passwords and wait.
fn enter(server: &Server) -> Vec<Connection> {
    let stored = server.get("/hash").text().to_owned();
    let login = Request::new("POST", "/enter").body(stored.as_bytes());
    let clients = (0..LOGINS).map(|_| {
        let mut client = server.connect();
        client.send(login.bytes());
        client
    });
    clients.collect()
}

fn entered(server: &Server) -> usize {
    server.get("/entered").text().parse().expect("a number")
}

#[test]
fn files_do_not_wait_for_passwords() {
    let folder = Folder::with("passwords", [("site.lua", SCRIPT)]);
    let server = serve(&folder);
    let mut clients = enter(&server);
    assert_eq!(server.get("/file").body.len(), 3 << 20);
    let before = entered(&server);
    assert!(before < LOGINS / 2, "{before} of {LOGINS} passwords were hashed before the file");
    for client in &mut clients {
        assert_eq!(client.receive().text(), "true");
    }
    assert_eq!(entered(&server), LOGINS);
    let bytes = server.memory_bytes("RssAnon");
    assert!(bytes <= MEMORY_MAX_BYTES, "{bytes} bytes");
    server.stop();
}

#[test]
fn passwords_of_disconnected_clients_are_not_hashed() {
    let folder = Folder::with("passwords", [("site.lua", SCRIPT)]);
    let server = serve(&folder);
    let clients = enter(&server);
    assert!(entered(&server) < LOGINS / 2);
    for client in clients {
        // The connections are reset: a client that only ends its sending side still waits for its
        // response.
        set_socket_linger(client.stream(), Some(Duration::ZERO)).expect("a socket");
    }
    // The request is behind all the others in the queue.
    assert!(server.get("/hash").text().starts_with("$argon2id$"));
    let entered = entered(&server);
    assert!(entered < LOGINS / 2, "{entered} of {LOGINS} passwords were hashed for nobody");
    server.stop();
}
