//! slowhttptest, the tool that people hold against a server to see whether it falls: heads and
//! contents that come by drops, answers that nobody takes, ranges without end. Everybody else must
//! not notice.

use pinion_tests::client::Connection;
use pinion_tests::folder::Folder;
use pinion_tests::matrix::Io;
use pinion_tests::peers::{output, program};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use std::thread;

/// Connections of each attack. Three attacks hold theirs, so a server must bear 900.
const CONNECTIONS: &str = "300";
/// What must be seen on the server at once for the attack to be one.
const HELD_MIN: usize = 300;
const SECONDS: &str = "5";
const LARGE_BYTES: usize = 4 << 20;

/// The attacks, with the sizes the tool's own manual gives as examples.
const ATTACKS: [(&str, &[&str]); 4] = [
    ("slow heads", &["-H", "-i", "1", "-x", "24"]),
    ("slow content", &["-B", "-i", "1", "-s", "8192", "-x", "10"]),
    ("ranges", &["-R", "-i", "1", "-a", "10", "-b", "3000"]),
    ("slow reading", &["-X", "-w", "10", "-y", "20", "-n", "1", "-z", "32", "-k", "3"]),
];

fn site() -> Folder {
    let folder = Folder::with("slow", [("site/index.html", "home")]);
    folder.write("site/large.bin", vec![b'x'; LARGE_BYTES]);
    build(&folder.join("site"), &folder.join("site.pinion"), &[]);
    folder
}

#[test]
fn slow_clients_leave_others_unharmed() {
    let folder = site();
    // Both at once: the attacks wait far more than they work.
    thread::scope(|scope| {
        for io in Io::BOTH {
            let archive = folder.join("site.pinion");
            scope.spawn(move || {
                let server = Start::serve(&[archive]).flags(&["--io", io.as_str()]).start();
                withstands(&server);
                server.stop();
            });
        }
    });
}

fn withstands(server: &Server) {
    let bound_bytes = server.told_bound_bytes();
    thread::scope(|scope| {
        let attacks = ATTACKS.map(|(name, flags)| scope.spawn(move || attack(server, name, flags)));
        let mut dripping = slow_content(server);
        let mut kept = server.connect();
        let (mut rounds, mut held) = (0, 0);
        while attacks.iter().any(|attack| !attack.is_finished()) {
            canary(server, &mut kept);
            for connection in &mut dripping {
                connection.send("x");
            }
            let sockets =
                server.open_files().iter().filter(|file| file.starts_with("socket:")).count();
            held = held.max(sockets);
            rounds += 1;
            let own_bytes = server.own_memory_bytes();
            assert!(own_bytes <= bound_bytes, "{own_bytes} of {bound_bytes} bytes");
        }
        assert!(held >= HELD_MIN, "only {held} connections at once: that is no attack");
        assert!(rounds > 0);
        for attack in attacks {
            attack.join().expect("the attack ends");
        }
    });
    assert_eq!(server.get("/").text(), "home");
}

/// Runs an attack to its end. The tool asks for itself beside it and says whether it was answered.
fn attack(server: &Server, name: &str, flags: &[&str]) {
    let mut tool = program("slowhttptest", "slowhttptest");
    tool.args(["-c", CONNECTIONS, "-r", CONNECTIONS, "-l", SECONDS, "-p", "50", "-v", "1"]);
    let output = output(tool.args(flags).arg("-u").arg(server.url("/large.bin")));
    let said = without_colours(&String::from_utf8_lossy(&output.stdout));
    let answered = said.lines().rfind(|line| line.starts_with("service available:"));
    let answered = answered.and_then(|line| line.split_whitespace().last());
    assert_eq!(answered, Some("YES"), "{name}: {said}");
}

/// The tool answers a refusal by going away, so these hold on to slow content in its place.
fn slow_content(server: &Server) -> Vec<Connection> {
    let start = |_| {
        let mut connection = server.connect();
        connection.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
        connection
    };
    (0..100).map(start).collect()
}

/// Somebody who behaves, on a connection of their own and on one that stays.
fn canary(server: &Server, kept: &mut Connection) {
    for response in [server.get("/"), kept.exchange(&Request::get("/"))] {
        assert_eq!((response.status, response.text()), (200, "home"));
    }
    let range = Request::get("/large.bin").field("Range", "bytes=4000000-");
    let response = kept.exchange(&range);
    assert_eq!((response.status, response.body.len()), (206, LARGE_BYTES - 4_000_000));
    assert_eq!(kept.exchange(&Request::head("/large.bin")).status, 200);
    assert_eq!(server.get("/nothing").status, 404);
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    // Each part but the first begins with the rest of a sequence: `[1;34m`.
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
}
