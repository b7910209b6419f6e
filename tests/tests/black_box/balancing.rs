//! Several servers of one mount: the distribution of requests, and their outcome when servers fail,
//! are killed and return. Requests are counted and never timed.

use crate::mounts::{named, reload, site, start};
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run_under};
use pinion_tests::upstream::Upstream;
use pinion_tests::wait_for;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Returns a mount of all paths, with these keys, to these servers.
fn mount(upstreams: &[&Upstream], keys: &str) -> String {
    let urls: Vec<String> = upstreams.iter().map(|one| format!("\"{}\"", one.url())).collect();
    format!("[[site.mount]]\nproxy = [{}]\n{keys}\n", urls.join(", "))
}

/// Returns the name of the server that has responded.
#[track_caller]
fn responder(server: &Server, request: &Request) -> String {
    let response = server.exchange(request);
    assert_eq!(response.status, 200, "{response}");
    response.text().split(' ').next().expect("a name").to_owned()
}

#[test]
fn requests_go_to_the_server_with_the_fewest_requests() {
    let folder = site("balance-load");
    // One server keeps its first request open until the test ends.
    let is_held = Arc::new(AtomicBool::new(true));
    let holder = {
        let is_held = is_held.clone();
        Upstream::start(move |connection| {
            while connection.request().is_some() {
                connection.note();
                while is_held.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                connection.respond(b"holder ");
            }
        })
    };
    let free = named("free");
    for io in Io::BOTH {
        is_held.store(true, Ordering::Relaxed);
        let before = holder.notes();
        let server = start(&folder, io, &mount(&[&holder, &free], ""));
        // Chance decides which server is first; in the end the holder has a request.
        let mut waiting = Vec::new();
        let arrived = || holder.notes() + free.heads().len();
        wait_for("a request at the server that holds it", || {
            let earlier = arrived();
            let mut connection = server.connect();
            connection.send(Request::get("/held").bytes());
            waiting.push(connection);
            wait_for("it arrives", || (arrived() > earlier).then_some(()));
            (holder.notes() > before).then_some(())
        });
        let held = holder.notes();
        for _ in 0..20 {
            assert_eq!(responder(&server, &Request::get("/x")), "free");
        }
        assert_eq!(holder.notes(), held);
        is_held.store(false, Ordering::Relaxed);
        for mut connection in waiting {
            assert_eq!(connection.receive().status, 200);
        }
        server.stop();
    }
}

#[test]
fn a_client_keeps_its_server() {
    let folder = site("balance-client");
    let servers = [named("a"), named("b"), named("c")];
    let all: Vec<&Upstream> = servers.iter().collect();
    let server = start(&folder, Io::Epoll, &mount(&all, "balance = \"client-hash\""));
    let first = responder(&server, &Request::get("/x"));
    for _ in 0..30 {
        assert_eq!(responder(&server, &Request::get("/x")), first);
    }
    server.stop();
}

/// A lost server moves its own share, and gets it back.
#[test]
fn a_header_chooses_the_server() {
    let folder = site("balance-header");
    let mut servers = [named("a"), named("b"), named("c")];
    let all: Vec<&Upstream> = servers.iter().collect();
    let keys = "balance = \"header-hash:X-User\"\nmax-fails = 1\nfail-timeout = 1";
    let server = start(&folder, Io::Epoll, &mount(&all, keys));
    let users: Vec<String> = (0..60).map(|number| format!("user-{number}")).collect();
    let homes = |server: &Server| -> BTreeMap<String, String> {
        let home = |user: &String| {
            (user.clone(), responder(server, &Request::get("/x").field("X-User", user)))
        };
        users.iter().map(home).collect()
    };
    let before = homes(&server);
    let names: BTreeSet<&String> = before.values().collect();
    assert_eq!(names.len(), 3, "{before:?}");
    assert_eq!(homes(&server), before);
    servers[1].kill();
    let moved = homes(&server);
    for (user, home) in &before {
        if home == "b" {
            assert_ne!(moved[user], "b");
        } else {
            assert_eq!(moved[user], *home, "{user}");
        }
    }
    servers[1].restart();
    wait_for("the old homes", || (homes(&server) == before).then_some(()));
    server.stop();
}

/// A request whose connection fails is sent to another server, with its content.
#[test]
fn a_server_that_is_down_loses_no_request() {
    let folder = site("balance-down");
    for io in Io::BOTH {
        let (mut dead, alive) = (named("dead"), named("alive"));
        dead.kill();
        let keys = "max-fails = 2\nfail-timeout = 3600";
        let server = start(&folder, io, &mount(&[&dead, &alive], keys));
        for number in 0..30 {
            let request = match number % 3 {
                0 => Request::get("/x"),
                1 => Request::new("POST", "/x").body(b"content"),
                _ => Request::new("PUT", "/x").chunked(&[b'x'; 100_000], 1000),
            };
            assert_eq!(responder(&server, &request), "alive");
        }
        let lines = server.last_words();
        let out = format!("{} is not used for 3600 s: 2 requests have failed", dead.url());
        let logged_count = lines.iter().filter(|line| line.contains(&out)).count();
        assert_eq!(logged_count, 1, "{lines:#?}");
    }
}

/// When servers fail, a request must not be tried on all of them. Each server that a request was
/// sent to is out, and the log reports it.
#[test]
fn a_request_is_sent_to_a_limited_number_of_servers() {
    let folder = site("balance-attempts");
    let mut dead: Vec<Upstream> = (0..6).map(|_| named("dead")).collect();
    dead.iter_mut().for_each(Upstream::kill);
    let dead: Vec<&Upstream> = dead.iter().collect();
    for (keys, attempts) in [("", 4), ("max-attempts = 1\n", 1), ("max-attempts = 64\n", 6)] {
        let keys = format!("{keys}max-fails = 1\nfail-timeout = 3600");
        let server = start(&folder, Io::Epoll, &mount(&dead, &keys));
        assert_eq!(server.get("/x").status, 502);
        let lines = server.last_words();
        let tried = lines.iter().filter(|line| line.contains(" is not used for 3600 s")).count();
        assert_eq!(tried, attempts, "{lines:#?}");
    }
}

/// Returns a port that lets connections wait: its queue is full, and it accepts none.
fn silent() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    rustix::net::listen(&listener, 0).expect("a short queue");
    let address = listener.local_addr().expect("an address");
    let (mut held, mut waited) = (Vec::new(), 0);
    // A single connection that waits may be chance on a busy machine, and is no sign of a full
    // queue.
    while waited < 3 {
        match TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
            Ok(stream) => {
                held.push(stream);
                waited = 0;
            }
            Err(error) if error.kind() == ErrorKind::TimedOut => waited += 1,
            Err(error) => panic!("a connection neither opens nor waits: {error}"),
        }
    }
    assert!(!held.is_empty(), "nothing waits in the queue");
    (listener, held)
}

/// A server that lets a connection wait takes ten seconds, and 64 of them would take ten minutes.
#[test]
fn the_search_for_a_server_has_a_time_limit() {
    let folder = site("balance-silent");
    let silent: Vec<_> = (0..3).map(|_| silent()).collect();
    let urls: Vec<String> = silent
        .iter()
        .map(|(listener, _)| format!("\"http://{}\"", listener.local_addr().expect("a port")))
        .collect();
    let lines = format!("[[site.mount]]\nproxy = [{}]\nretry-timeout = 1\n", urls.join(", "));
    for io in Io::BOTH {
        let server = start(&folder, io, &lines);
        for request in [Request::get("/x"), Request::new("POST", "/x").body(b"content")] {
            assert_eq!(server.exchange(&request).status, 504);
        }
        let lines = server.last_words();
        let reason = "no server could be reached within 1 s (retry-timeout), 1 tried; http://";
        assert!(lines.iter().any(|line| line.contains(reason)), "{lines:#?}");
    }
}

/// A server that has received a request may have executed it. That is true as well when the time to
/// reach a server has ended, and the response must not claim that no server was reached.
#[test]
fn a_request_that_a_server_has_seen_is_not_too_late() {
    let folder = site("balance-late");
    let late = || {
        Upstream::start(|connection| {
            if connection.request().is_some() {
                let began = Instant::now();
                wait_for("the end of `retry-timeout`", || {
                    (began.elapsed() > Duration::from_millis(1100)).then_some(())
                });
            }
        })
    };
    let keys = "max-fails = 0\nretry-timeout = 1";
    let server = start(&folder, Io::Epoll, &mount(&[&late(), &late()], keys));
    for request in [Request::new("POST", "/x").body(b"content"), Request::get("/x")] {
        assert_eq!(server.exchange(&request).status, 502);
    }
    let lines = server.last_words();
    assert!(lines.iter().all(|line| !line.contains("could be reached")), "{lines:#?}");
}

#[test]
fn when_all_servers_are_out_all_are_tried() {
    let folder = site("balance-all-out");
    let (mut one, mut two) = (named("one"), named("two"));
    one.kill();
    two.kill();
    let keys = "max-fails = 1\nfail-timeout = 3600";
    let server = start(&folder, Io::Epoll, &mount(&[&one, &two], keys));
    for _ in 0..5 {
        assert_eq!(server.get("/x").status, 502);
    }
    two.restart();
    for _ in 0..5 {
        assert_eq!(responder(&server, &Request::get("/x")), "two");
    }
    let lines = server.last_words();
    let back = format!("{} is used again", two.url());
    assert_eq!(lines.iter().filter(|line| line.contains(&back)).count(), 1, "{lines:#?}");
}

/// A sent request is not sent again, unless it is safe and the budget allows it.
#[test]
fn only_safe_requests_go_to_another_server_when_one_has_seen_them() {
    let folder = site("balance-sent");
    // Reads requests, and never responds.
    let rude = Upstream::start(|connection| {
        if connection.request().is_some() {
            connection.note();
        }
    });
    let kind = named("kind");
    let keys = "balance = \"header-hash:X-User\"\nmax-fails = 0\n[server]\nworkers = 1";
    let server = start(&folder, Io::Epoll, &mount(&[&rude, &kind], keys));
    // A user whose home is the rude one.
    let user = (0..100).map(|number| format!("user-{number}")).find(|user| {
        let before = rude.notes();
        let response = server.exchange(&Request::get("/x").field("X-User", user));
        assert_eq!((response.status, response.text()), (200, "kind GET /x HTTP/1.1"));
        rude.notes() > before
    });
    let user = user.expect("a user");
    for (method, body, status) in [
        ("GET", None, 200),
        ("OPTIONS", None, 200),
        ("POST", Some("a"), 502),
        ("PUT", Some("a"), 502),
        ("DELETE", None, 502),
        ("GET", Some("a"), 502),
    ] {
        let request = Request::new(method, "/x").field("X-User", &user);
        let request = body.map_or(request.clone(), |body| request.body(body.as_bytes()));
        let (before, at_kind) = (rude.notes(), kind.heads().len());
        assert_eq!(server.exchange(&request).status, status, "{method} {body:?}");
        assert_eq!(rude.notes() - before, 1, "{method} {body:?}");
        assert_eq!(kind.heads().len() - at_kind, usize::from(status == 200), "{method} {body:?}");
    }
    // The budget is one in five, and a few at the beginning.
    let statuses: Vec<u16> = (0..300)
        .map(|_| server.exchange(&Request::get("/x").field("X-User", &user)).status)
        .collect();
    let repeated = statuses.iter().filter(|status| **status == 200).count();
    assert!((60..=60 + 16 + 106 / 5).contains(&repeated), "{repeated} of {}", statuses.len());
    server.stop();
}

/// Clients send requests all the time, while one server after the other is killed and restarted.
#[test]
fn servers_that_are_killed_and_restarted_lose_no_request() {
    let folder = site("balance-kills");
    for io in Io::BOTH {
        let mut servers = [named("a"), named("b"), named("c")];
        let all: Vec<&Upstream> = servers.iter().collect();
        let keys = "max-fails = 1\nfail-timeout = 1";
        let server = start(&folder, io, &mount(&all, keys));
        let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let clients: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let mut failed = Vec::new();
                        let mut connection = server.connect();
                        while !is_over.load(Ordering::Relaxed) {
                            let response = connection.exchange(&Request::get("/x"));
                            if response.status != 200 {
                                failed.push(response.to_string());
                            }
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        failed
                    })
                })
                .collect();
            let wait_for_requests = |more: usize| {
                let from = count.load(Ordering::Relaxed);
                wait_for("requests", || {
                    (count.load(Ordering::Relaxed) >= from + more).then_some(())
                });
            };
            for round in 0..6 {
                wait_for_requests(400);
                let one = &mut servers[round % 3];
                one.kill();
                wait_for_requests(400);
                one.restart();
                // The server is used again before the next one is killed.
                let before = one.heads().len();
                wait_for("requests at a server that is back", || {
                    (one.heads().len() > before).then_some(())
                });
            }
            is_over.store(true, Ordering::Relaxed);
            for client in clients {
                let failed = client.join().expect("no panic");
                assert_eq!(failed, Vec::<String>::new());
            }
        });
        server.stop();
    }
}

/// Starts a server whose health is checked: `is_well` selects its response.
fn patient(name: &'static str, is_well: &Arc<AtomicBool>) -> Upstream {
    let is_well = is_well.clone();
    Upstream::start(move |connection| {
        while let Some(head) = connection.request() {
            if !head.starts_with("GET /health ") {
                connection.respond(format!("{name} ").as_bytes());
            } else if is_well.load(Ordering::Relaxed) {
                connection.note();
                connection.respond(b"well");
            } else {
                connection.note();
                connection.send("HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n");
            }
        }
    })
}

const CHECKS: &str = "health-path = \"/health\"\nhealth-interval = 1\nhealth-fails = 2\n\
                      health-passes = 2";

#[test]
fn health_checks_disable_a_server_and_enable_it_again() {
    let folder = site("health");
    for io in Io::BOTH {
        let (a_is_well, b_is_well) =
            (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
        let (a, b) = (patient("a", &a_is_well), patient("b", &b_is_well));
        let server = start(&folder, io, &mount(&[&a, &b], CHECKS));
        a_is_well.store(false, Ordering::Relaxed);
        let down = format!("{} is down: 2 health checks have failed: status 503", a.url());
        server.wait_for_line(0, |line| line.contains(&down));
        for _ in 0..20 {
            assert_eq!(responder(&server, &Request::get("/x")), "b");
        }
        // With both down, both are tried.
        b_is_well.store(false, Ordering::Relaxed);
        server.wait_for_line(0, |line| line.contains(&format!("{} is down", b.url())));
        responder(&server, &Request::get("/x"));
        a_is_well.store(true, Ordering::Relaxed);
        let up = format!("{} is up: 2 health checks have passed", a.url());
        server.wait_for_line(0, |line| line.contains(&up));
        for _ in 0..20 {
            assert_eq!(responder(&server, &Request::get("/x")), "a");
        }
        let lines = server.last_words();
        for message in [&down, &up] {
            assert_eq!(lines.iter().filter(|line| line.contains(message)).count(), 1, "{lines:#?}");
        }
        // One worker makes the checks for all.
        let head =
            a.heads().into_iter().find(|head| head.starts_with("GET /health ")).expect("one");
        assert!(head.contains("User-Agent: Pinion/"), "{head}");
    }
}

/// A server that is not there fails its checks without a request of a client.
#[test]
fn health_checks_find_a_server_that_was_killed() {
    let folder = site("health-killed");
    let is_well = Arc::new(AtomicBool::new(true));
    let (mut a, b) = (patient("a", &is_well), patient("b", &is_well));
    let server = start(&folder, Io::Epoll, &mount(&[&a, &b], CHECKS));
    wait_for("a check", || (a.notes() > 0).then_some(()));
    a.kill();
    let down = format!("{} is down", a.url());
    server.wait_for_line(0, |line| line.contains(&down) && line.contains("refused"));
    a.restart();
    server.wait_for_line(0, |line| line.contains(&format!("{} is up", a.url())));
    server.stop();
}

/// A reload adds checks, and ends those of removed servers.
#[test]
fn a_reload_adds_and_removes_health_checks() {
    let folder = site("health-reload");
    let is_well = Arc::new(AtomicBool::new(true));
    let (a, b) = (patient("a", &is_well), patient("b", &is_well));
    let server = start(&folder, Io::Epoll, &mount(&[&a], ""));
    let write = |lines: String| {
        folder.write("p.toml", format!("[[site]]\npath = \"public\"\n{lines}"));
        reload(&server);
    };
    assert_eq!(responder(&server, &Request::get("/x")), "a");
    write(mount(&[&a], CHECKS));
    wait_for("a check", || (a.notes() > 0).then_some(()));
    write(mount(&[&b], CHECKS));
    wait_for("a check of the other server", || (b.notes() > 0).then_some(()));
    let (seen_a, seen_b) = (a.notes(), b.notes());
    wait_for("more checks", || (b.notes() > seen_b + 1).then_some(()));
    // One check may have been on its way.
    assert!(a.notes() <= seen_a + 1, "{} after {seen_a}", a.notes());
    server.stop();
}

/// `pinion status` shows which servers are used.
#[test]
fn status_shows_the_servers() {
    let folder = site("balance-status");
    let is_well = Arc::new(AtomicBool::new(false));
    let (mut dead, alive, sick) = (named("dead"), named("alive"), patient("sick", &is_well));
    dead.kill();
    let mounts = [
        mount(&[&dead, &alive], "path = \"/api\"\nmax-fails = 1\nfail-timeout = 3600"),
        mount(&[&sick], "health-path = \"/health\"\nhealth-interval = 1\nhealth-fails = 1"),
    ];
    folder.write("p.toml", format!("[[site]]\npath = \"public\"\n{}", mounts.concat()));
    let server = Start::site(&folder.join("p.toml")).session(folder.path()).start();
    wait_for("a failure", || {
        server.get("/api");
        server.lines().iter().any(|line| line.contains("is not used")).then_some(())
    });
    server.wait_for_line(0, |line| line.contains(&format!("{} is down", sick.url())));
    let ask = |arguments: &[&str]| {
        let mut env = Command::new("env");
        env.arg(format!("XDG_RUNTIME_DIR={}", folder.path().display()));
        run_under(env, arguments).stdout
    };
    let report: Value = serde_json::from_str(&ask(&["status", "--json"])).expect("a document");
    let upstream = |mount: &str, url: String, state: &str| -> Value {
        json!({ "mount": mount, "url": url, "state": state, "requests": 0 })
    };
    let expected = json!([
        upstream("/api", dead.url(), "left-out"),
        upstream("/api", alive.url(), "up"),
        upstream("/", sick.url(), "down"),
    ]);
    assert_eq!(report["servers"][0]["sites"][0]["upstreams"], expected, "{report}");
    let text = ask(&["status"]);
    for line in [
        format!("{} at /api, left out: requests have failed", dead.url()),
        format!("{} at /api, up, 0 requests", alive.url()),
        format!("{} at /, down: health checks fail", sick.url()),
    ] {
        assert!(text.contains(&line), "{line}: {text}");
    }
    server.stop();
}
