//! Clients that use more than their share: their cost is limited, and others are served.

use pinion_tests::client::{Broken, Connection};
use pinion_tests::external_programs::{output, program};
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::{Form, Io, Way, ways};
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::time::Duration;

/// More than the buffers of both ends of a connection can hold.
const LARGE_BYTES: usize = 8 << 20;

/// A handler whose response takes a while.
const SLOW: &str = "pinion.get('/', function() pinion.sleep(0.3) return 'home' end)\n";

fn site() -> Folder {
    let folder = Folder::with("limits", [("site/index.html", "home")]);
    folder.write("site/large.bin", vec![b'x'; LARGE_BYTES]);
    build(&folder.join("site"), &folder.join("site.pinion"), &[]);
    folder
}

fn start(io: Io, folder: &Folder, flags: &[&str]) -> Start {
    start_in(Way { protocol: Protocol::Http1, io, form: Form::Archive }, folder, flags)
}

fn start_in(way: Way, folder: &Folder, flags: &[&str]) -> Start {
    Start::serve(&[folder.join("site.pinion")]).in_way(way).flags(flags)
}

/// Sends requests until one gets its response; each failed attempt costs one connection.
#[track_caller]
fn is_answered(server: &Server) {
    wait_for("an answer for somebody else", || {
        let mut connection = Connection::try_to(server.peer()).ok()?;
        connection.send_if_open(Request::get("/").bytes());
        let response = connection.try_receive(false).ok()?;
        (response.status == 200).then_some(())
    });
}

/// Connections in use are never closed for new ones, which wait in the accept queue.
#[test]
fn connections_beyond_the_cap_wait_for_a_free_slot() {
    for io in Io::BOTH {
        let flags = ["--io", io.as_str(), "--max-connections", "8", "--workers", "2"];
        let (_folder, script) = script(SLOW);
        let server = Start::site(&script).flags(&flags).start();
        let others = sockets(&server);
        let mut clients: Vec<Connection> = (0..28).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(Request::get("/").field("Connection", "close").bytes());
        }
        for client in &mut clients {
            assert_eq!(client.receive().text(), "home");
            let held = sockets(&server) - others;
            assert!(held <= 8, "{held} connections over {io:?}");
        }
        server.stop();
    }
}

#[test]
fn slow_clients_on_all_connections_stay_below_the_reported_memory_bound() {
    /// The number of connections that the server may hold, by the flag below.
    const CONNECTIONS: usize = 400;
    for way in ways(Protocol::is_http1) {
        // A budget so small that many connections are refused, and one so large that all can stay
        // except those that are closed for new ones after they have stalled for a second.
        for (budget, held_min) in [("4", 0), ("128", CONNECTIONS - CONNECTIONS / 8)] {
            let folder = site();
            let log = folder.join("access.log");
            let flags = ["--max-connections", "400", "--memory-budget", budget, "--workers", "2"];
            let flags = [&flags[..], &["--access-log", log.to_str().expect("a path")]].concat();
            let server = start_in(way, &folder, &flags).start();
            let bound_bytes = server.reported_bound_bytes();
            // One slot stays free for another client.
            let slow: Vec<Connection> = (1..CONNECTIONS)
                .map(|number| {
                    let mut connection = server.connect();
                    connection.send_if_open(slow_client(number));
                    connection
                })
                .collect();
            // The first attempt succeeds, although others hold all they can get.
            for _ in 0..20 {
                assert_eq!(server.get("/").text(), "home");
            }
            let own_bytes = server.own_memory_bytes();
            eprintln!("{way:?}, {budget} MiB: {own_bytes} of {bound_bytes} bytes");
            assert!(own_bytes <= bound_bytes, "{own_bytes} of {bound_bytes} bytes");
            let held = sockets(&server);
            assert!(held >= held_min, "{held} connections are held");
            drop(slow);
            is_answered(&server);
            server.stop();
        }
    }
}

#[test]
fn incomplete_heads_do_not_exhaust_the_buffers() {
    /// Connections that together need far more than the budget.
    const CONNECTIONS: usize = 1200;
    for way in ways(Protocol::is_http1) {
        let folder = site();
        let server = start_in(way, &folder, &["--memory-budget", "8", "--workers", "2"]).start();
        let mut halves = Vec::new();
        for number in 0..CONNECTIONS {
            let mut half = server.connect();
            half.send_if_open(format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(15_900)));
            halves.push(half);
            if number % 10 == 0 {
                assert_eq!(server.get("/").text(), "home", "beside {number} half heads");
                assert_eq!(server.get("/nothing").status, 404, "beside {number} half heads");
            }
        }
        server.stop();
    }
}

/// Returns the input of a slow client: half a head, half a body, requests whose responses from the
/// archive it will not read, and those whose generated responses it will not read.
fn slow_client(number: usize) -> Vec<u8> {
    match number % 4 {
        0 => format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "y".repeat(15_000)).into_bytes(),
        1 => Request::new("POST", "/").body(&[b'x'; 1000]).bytes()[..500].to_vec(),
        2 => Request::get("/large.bin").bytes().repeat(20),
        _ => Request::get("/nothing").bytes().repeat(3000),
    }
}

#[test]
fn a_server_out_of_descriptors_continues() {
    for io in Io::BOTH {
        let folder = site();
        let server = start(io, &folder, &["--workers", "1"]).start();
        assert_eq!(server.get("/").text(), "home");
        let now = server.open_files().len();
        // A few more descriptors: some connections are accepted, then accept fails (EMFILE) until
        // one is closed.
        set_open_files(&server, now + 8);
        let mut clients: Vec<Connection> = (0..40).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(Request::get("/").bytes());
        }
        assert_eq!(clients[0].receive().text(), "home");
        // Each closed connection makes room for another one.
        for mut client in clients.drain(1..) {
            assert_eq!(client.receive().text(), "home");
        }
        set_open_files(&server, now + 1000);
        is_answered(&server);
        server.stop();
    }
}

#[test]
fn a_server_out_of_memory_continues() {
    /// Each connection takes about 100 KiB of buffers.
    const CONNECTIONS: usize = 400;
    /// The memory of the server in addition to that of an idle one; its budget allows far more.
    const ROOM_BYTES: u64 = 4 << 20;
    // TLS is excluded: its library allocates without checking for failure, and the process would
    // end.
    for io in Io::BOTH {
        let folder = site();
        let log = folder.join("access.log");
        let flags = ["--memory-budget", "1024", "--access-log", log.to_str().expect("a path")];
        let server = start(io, &folder, &flags).start();
        let mut idle = server.connect();
        assert_eq!(idle.exchange(&Request::get("/")).text(), "home");
        let data_bytes = server.memory_bytes("VmData") + ROOM_BYTES;
        limit(&server, &format!("--data={data_bytes}:"));
        let slow: Vec<Connection> = (0..CONNECTIONS)
            .filter_map(|number| {
                let mut connection = Connection::try_to(server.peer()).ok()?;
                connection.send_if_open(slow_client(number));
                Some(connection)
            })
            .collect();
        wait_for("somebody who is turned away", || slow.iter().any(is_cut_off).then_some(()));
        drop(slow);
        is_answered(&server);
        // The connection has sent nothing meanwhile.
        assert!(!is_cut_off(&idle));
        server.stop();
    }
}

fn set_open_files(server: &Server, count: usize) {
    limit(server, &format!("--nofile={count}:"));
}

/// Returns the number of sockets that the server has open.
fn sockets(server: &Server) -> usize {
    server.open_files().iter().filter(|file| file.starts_with("socket:")).count()
}

/// Returns whether the server has ended or reset an unread connection.
fn is_cut_off(connection: &Connection) -> bool {
    let stream = connection.stream();
    stream.set_nonblocking(true).expect("a socket");
    let ended = matches!(stream.peek(&mut [0]), Ok(0));
    ended || stream.take_error().expect("a socket").is_some()
}

/// Sets a limit of the running server, in the syntax of `prlimit`.
fn limit(server: &Server, limit: &str) {
    let mut prlimit = program("prlimit", "util-linux");
    prlimit.arg(format!("--pid={}", server.id())).arg(limit);
    let output = output(&mut prlimit);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn with_few_descriptors_a_server_accepts_as_many_clients_as_possible() {
    for io in Io::BOTH {
        let folder = site();
        let server = start(io, &folder, &["--max-connections", "1000"]).open_files(100).start();
        server.wait_for_line(0, |line| line.contains("the limit on open files allows 36"));
        let mut clients: Vec<Connection> = (0..100).map(|_| server.connect()).collect();
        for client in &mut clients {
            client.send(Request::get("/").bytes());
        }
        for mut client in clients {
            assert_eq!(client.receive().text(), "home");
        }
        server.stop();
    }
}

#[test]
fn large_files_of_a_folder_take_descriptors_from_the_connections() {
    let folder = Folder::with("descriptors", [("index.html", "home")]);
    for number in 0..20 {
        let file = std::fs::File::create(folder.join(format!("{number}.bin")));
        file.and_then(|file| file.set_len(2 << 20)).expect("a large file");
    }
    for io in Io::BOTH {
        let flags = ["--io", io.as_str(), "--max-connections", "1000"];
        let server = Start::site(folder.path()).flags(&flags).open_files(200).start();
        // The limit is reduced by 64 for the server itself, and by two states of the folder.
        server.wait_for_line(0, |line| line.contains("the limit on open files allows 96"));
        is_answered(&server);
        server.stop();
    }
}

/// A head must arrive within 10 seconds (docs/serving.md, "Limits").
#[test]
fn a_head_that_times_out_is_refused() {
    let folder = site();
    let ways = ways(Protocol::is_http1).into_iter();
    let servers: Vec<Server> = ways.map(|way| start_in(way, &folder, &[]).start()).collect();
    std::thread::scope(|scope| {
        for server in &servers {
            scope.spawn(|| {
                let mut half = server.connect();
                half.send("GET / HTTP/1.1\r\nHost:");
                let response = half.receive();
                assert_eq!(response.status, 408, "{response}");
                assert!(response.says_close());
                half.expect_close();
            });
            // Late bytes must not extend the deadline.
            scope.spawn(|| {
                let mut dripping = server.connect();
                dripping.send("GET / HTTP/1.1\r\n");
                dripping.stream().set_read_timeout(Some(Duration::from_millis(200))).expect("set");
                let response = wait_for("a refusal", || {
                    dripping.send_if_open("X: y\r\n");
                    match dripping.try_receive(false) {
                        Ok(response) => Some(response),
                        Err(Broken::Failed(_)) => None,
                        Err(other) => panic!("{other:?}"),
                    }
                });
                assert_eq!(response.status, 408, "{response}");
            });
            // A connection without a request gets no response.
            scope.spawn(|| server.connect().expect_close());
        }
    });
    for server in servers {
        assert_eq!(server.get("/").text(), "home");
        server.stop();
    }
}

#[test]
fn slow_readers_do_not_hold_up_others() {
    for way in ways(Protocol::is_http1) {
        let folder = site();
        let server = start_in(way, &folder, &["--workers", "1"]).start();
        let mut slow: Vec<Connection> = (0..50).map(|_| server.connect()).collect();
        for connection in &mut slow {
            connection.send(Request::get("/large.bin").bytes());
            connection.read_some(100).expect("the first bytes");
        }
        for _ in 0..100 {
            assert_eq!(server.get("/").text(), "home");
        }
        for mut connection in slow {
            assert_eq!(connection.receive().body.len(), LARGE_BYTES);
        }
        server.stop();
    }
}
