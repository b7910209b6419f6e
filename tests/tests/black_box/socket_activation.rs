//! Listeners that a service manager has bound: `fd:NAME`.

use pinion_tests::client::byte_stream::Peer;
use pinion_tests::client::{Client, Connection, ask_unix};
use pinion_tests::external_programs::program;
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::{Io, ways};
use pinion_tests::passed_sockets::passing;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run_under};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::Signal;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

fn site() -> Folder {
    Folder::with("activation", [("site/index.html", "home")])
}

/// Returns the only kind of socket over which a protocol is spoken.
fn kind(protocol: Protocol) -> &'static str {
    if protocol == Protocol::Http3 { "web=udp" } else { "web=tcp" }
}

#[test]
fn every_protocol_is_spoken_on_passed_sockets() {
    let folder = site();
    for way in ways(|_| true) {
        let server = Start::site(&folder.join("site"))
            .in_way(way)
            .flags(&["--workers", "3"])
            .listening_at("fd:web")
            .under(passing(&[kind(way.protocol)]))
            .start();
        // Each client has a port of its own, and the kernel spreads them over the workers.
        let mut clients: Vec<Client> = (0..8).map(|_| server.client()).collect();
        for client in clients.iter_mut().chain(&mut [server.client()]) {
            assert_eq!(client.exchange(&Request::get("/")).text(), "home", "{way:?}");
        }
        drop(clients);
        server.stop();
    }
}

/// `ReusePort=yes` of systemd.socket(5), with the address given twice.
#[test]
fn each_udp_socket_of_an_address_is_read_by_one_worker() {
    let folder = site();
    for way in ways(|protocol| protocol == Protocol::Http3) {
        let start = |workers: &str| {
            Start::site(&folder.join("site"))
                .in_way(way)
                .flags(&["--workers", workers])
                .listening_at("fd:web")
                .under(passing(&["web=reuseport"; 2]))
        };
        for workers in ["2", "3"] {
            let server = start(workers).start();
            let urls = server.lines().into_iter().filter(|line| line.starts_with("listening "));
            assert_eq!(urls.count(), 1, "one listener");
            for _ in 0..16 {
                assert_eq!(server.get("/").text(), "home");
            }
            server.stop();
        }
        let mut server = start("1").begin();
        assert_eq!(server.wait().code(), Some(2));
        let line = server.wait_for_line(0, |line| line.contains("fd:web"));
        assert!(
            line.contains("2 UDP sockets for one address, but there can be only one for each"),
            "{line}"
        );
    }
}

#[test]
fn one_name_may_have_several_sockets_and_the_rest_is_reported() {
    let folder = site();
    let sockets = ["https=tcp", "https=udp", "http=tcp", "http=tcp", "spare=tcp"];
    let flags = ["--quic", "fd:https", "--listen", "fd:http"];
    let server = Start::site(&folder.join("site"))
        .in_way(ways(|protocol| protocol == Protocol::Http2)[0])
        .listening_at("fd:https")
        .flags(&flags)
        .under(passing(&sockets))
        .start();
    assert_eq!(server.get("/").text(), "home");
    let lines = server.lines();
    let urls = |scheme: &str| {
        let head = format!("listening {scheme}://127.0.0.1:");
        lines.iter().filter_map(|line| line.strip_prefix(&head)).collect::<Vec<_>>()
    };
    assert_eq!((urls("http").len(), urls("https").len()), (2, 2), "{lines:#?}");
    for rest in urls("http") {
        let address = format!("127.0.0.1:{}", rest.trim_end_matches('/'));
        let mut connection = Connection::open(address.parse().expect("an address"));
        assert_eq!(connection.exchange(&Request::get("/")).text(), "home");
    }
    let mut warnings = lines.iter().filter(|line| line.contains("warning:"));
    let spare = warnings.next().expect("a warning");
    assert!(spare.contains("the socket fd:spare (fd:7), which no listener uses"), "{spare}");
    assert_eq!(warnings.next(), None);
    server.stop();
}

#[test]
fn the_file_of_a_passed_unix_socket_stays() {
    for io in Io::BOTH {
        let folder = site();
        let path = folder.join("web.sock");
        let socket = format!("web=unix:{}", path.display());
        let server = Start::site(&folder.join("site"))
            .flags(&["--io", io.as_str(), "--listen", "fd:3"])
            .listening_at("127.0.0.1:0")
            .under(passing(&[socket]))
            .start();
        let url = format!("listening unix:{}", path.display());
        assert!(server.lines().contains(&url), "{:#?}", server.lines());
        assert!(ask_unix(&path, "x").ends_with("\r\n\r\nhome"));
        server.stop();
        let kind = fs::symlink_metadata(&path).expect("it is there").file_type();
        assert!(kind.is_socket());
    }
}

#[test]
fn a_socket_that_cannot_be_used_is_an_error_with_its_reason() {
    let folder = site();
    let site = folder.join("site").display().to_string();
    let seqpacket = format!("web=seqpacket:{}", folder.join("packets").display());
    for (socket, flag, why) in [
        ("web=udp", "--listen", "this is neither a TCP socket nor a Unix stream socket"),
        ("web=file", "--listen", "this is neither a TCP socket nor a Unix stream socket"),
        (&*seqpacket, "--listen", "this is neither a TCP socket nor a Unix stream socket"),
        ("web=tcp", "--quic", "HTTP/3 needs a UDP socket (ListenDatagram="),
        ("web=silent", "--listen", "this socket does not listen; the socket unit needs Accept=no"),
        ("other=tcp", "--listen", "no socket with this name; there are fd:other (fd:3) (FileDesc"),
    ] {
        let state = folder.join("state").display().to_string();
        let words = ["serve", &site, flag, "fd:web", "--state", &state];
        let ended = run_under(passing(&[socket]), &words);
        assert_eq!(ended.code, Some(2), "{socket}: {}", ended.stderr);
        let line = ended.stderr.lines().find(|line| line.contains(&format!("{flag} fd:web: ")));
        assert!(line.is_some_and(|line| line.contains(why)), "{socket}: {}", ended.stderr);
    }
}

#[test]
fn sockets_for_another_process_are_an_error_and_matter_to_no_other_server() {
    let folder = site();
    let site = folder.join("site").display().to_string();
    let env = |variables: &[&str]| {
        let mut env = program("env", "coreutils");
        env.args(variables);
        env
    };
    let others = ["LISTEN_PID=1", "LISTEN_FDS=1"];
    for (variables, why) in [
        (&others[..], "the sockets are for the process 1 (LISTEN_PID), and this is "),
        (&[], "LISTEN_PID and LISTEN_FDS are not set"),
    ] {
        let ended = run_under(env(variables), &["serve", &site, "--listen", "fd:web"]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("--listen fd:web: "), "{}", ended.stderr);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
    let server = Start::site(&folder.join("site")).under(env(&others)).start();
    assert_eq!(server.get("/").text(), "home");
    assert!(!server.last_words().iter().any(|line| line.contains("warning:")));
}

/// A key of a file names the socket, and the error has the position of the key; `pinion check`
/// looks for no sockets.
#[test]
fn a_configuration_names_passed_sockets() {
    let listen = "[[site]]\npath = \"site\"\n\n[[listen]]\naddress = \"fd:web\"\n";
    let folder = site();
    folder.write("pinion.toml", listen);
    let file = folder.join("pinion.toml");
    let path = file.display().to_string();
    assert_eq!(pinion_tests::server::run(&["check", &path]).code, Some(0));
    let server = Start::configured(&file).under(passing(&["web=tcp"])).start();
    assert_eq!(server.get("/").text(), "home");
    let lines = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(lines, |line| line.starts_with("reloaded "));
    assert!(!server.last_words().iter().any(|line| line.contains("restart is needed")));
    let ended = run_under(passing(&["other=tcp"]), &["serve", &path]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("pinion.toml:5:11: address fd:web: the "), "{}", ended.stderr);
}

#[test]
fn programs_of_scripts_get_neither_sockets_nor_variables() {
    let (_folder, path) = script(
        "pinion.get('/', function()\n\
             local pipe = io.popen('env | cut -d= -f1; readlink /proc/self/fd/*')\n\
             local text = pipe:read('*a')\n\
             pipe:close()\n\
             return text\n\
         end)\n",
    );
    let server = Start::site(&path)
        .flags(&["--lua-unsafe", "--workers", "1"])
        .listening_at("fd:web")
        .under(passing(&["web=tcp"]))
        .start();
    let response = server.get("/");
    let lines: Vec<&str> = response.text().lines().collect();
    assert!(lines.contains(&"PATH"), "{lines:?}");
    let is_passed = |line: &&str| line.starts_with("LISTEN_") || line.starts_with("socket:");
    assert!(!lines.iter().any(is_passed), "{lines:?}");
    server.stop();
}

/// Returns a server under a manager that keeps the socket.
fn restarted(site: &Path, io: Io, socket: &TcpListener) -> Server {
    Start::site(site)
        .flags(&["--io", io.as_str(), "--workers", "2"])
        .listening_at("fd:web")
        .stdin(socket.try_clone().expect("a copy").into())
        .under(passing(&["web=stdin"]))
        .start()
}

#[test]
fn a_client_that_connects_during_a_restart_is_served() {
    for io in Io::BOTH {
        let folder = site();
        let socket = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = socket.local_addr().expect("an address");
        let server = restarted(&folder.join("site"), io, &socket);
        assert_eq!(server.get("/").text(), "home");
        server.stop();
        let request = Request::get("/");
        let mut early = Connection::open(address);
        early.send(request.bytes());
        let server = restarted(&folder.join("site"), io, &socket);
        assert_eq!(early.receive_to(&request).text(), "home");
        server.stop();
    }
}

#[test]
fn restarts_under_load_lose_no_request() {
    for io in Io::BOTH {
        let folder = site();
        let socket = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = socket.local_addr().expect("an address");
        let (stop, responses) = (AtomicBool::new(false), AtomicU32::new(0));
        let mut server = restarted(&folder.join("site"), io, &socket);
        thread::scope(|scope| {
            let _ends = pinion_tests::SetAtEnd(&stop);
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let response = Connection::open(address).exchange(&Request::get("/"));
                        assert_eq!(response.text(), "home");
                        responses.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..3 {
                let before = responses.load(Ordering::Relaxed);
                wait_for("answers", || {
                    (responses.load(Ordering::Relaxed) > before + 20).then_some(())
                });
                server.signal(Signal::TERM);
                assert!(server.wait().success());
                server = restarted(&folder.join("site"), io, &socket);
            }
        });
        server.stop();
    }
}

/// The tool of systemd that follows a socket unit. It is killed with the test.
struct Activation(Child);

impl Activation {
    /// Starts it with an address that is free, which it needs to know: port 0 is no address for it.
    /// `table` has the sockets of the kernel, such as `tcp`.
    fn start(table: &str, arguments: &[&str], site: &Path, flags: &[&str]) -> (Self, SocketAddr) {
        let mut started = None;
        wait_for("the tool of systemd", || {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
            let address = free.expect("an address");
            let mut tool = program("systemd-socket-activate", "systemd");
            tool.arg("--listen").arg(address.to_string()).args(arguments);
            tool.arg(pinion_tests::binary::pinion()).arg("serve").arg(site).args(flags);
            tool.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut tool = Activation(tool.spawn().expect("started"));
            // The tool ends if another process has taken the address meanwhile.
            started = tool.listens(table).then_some((tool, address));
            started.is_some().then_some(())
        });
        started.expect("started")
    }

    /// Waits until it has a socket of an address, or has ended.
    fn listens(&mut self, table: &str) -> bool {
        let folder = format!("/proc/{}", self.0.id());
        wait_for("a socket", || {
            if self.0.try_wait().expect("its state").is_some() {
                return Some(false);
            }
            let socket = fs::read_link(format!("{folder}/fd/3")).ok()?;
            let inode = socket.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
            let table = fs::read_to_string(format!("{folder}/net/{table}")).ok()?;
            let rows = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
            // LISTEN, or bound; before that the socket is not in the table.
            let is_match = |row: &Vec<&str>| {
                row.get(9) == Some(&&*inode) && ["0A", "07"].contains(row.get(3).unwrap_or(&""))
            };
            rows.into_iter().any(|row| is_match(&row)).then_some(true)
        })
    }

    /// Stops the server that the tool has become.
    fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, Signal::TERM).expect("a signal");
        let status = wait_for("the end", || self.0.try_wait().expect("its state"));
        assert!(status.success(), "{status}");
    }
}

impl Drop for Activation {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

#[test]
fn systemd_starts_the_server_for_its_first_client() {
    let folder = site();
    let path = folder.join("web.sock");
    let local = path.to_str().expect("text");
    for io in Io::BOTH {
        let _replaced = fs::remove_file(&path);
        let flags = ["--io", io.as_str(), "--listen", "fd:web", "--listen", "fd:local"];
        let arguments = ["--listen", local, "--fdname", "web:local"];
        let (tool, address) = Activation::start("tcp", &arguments, &folder.join("site"), &flags);
        assert_eq!(Connection::open(address).exchange(&Request::get("/")).text(), "home");
        assert!(ask_unix(&path, "x").ends_with("\r\n\r\nhome"));
        tool.stop();
        assert!(path.exists(), "it is the file of the tool");
    }
}

/// Sockets for datagrams are passed when the first one has arrived.
#[test]
fn systemd_starts_the_server_for_its_first_datagram() {
    let folder = site();
    let path = folder.join("state");
    let state = path.to_str().expect("text");
    // The certificate that clients trust is made by a first start.
    let made = Start::site(&folder.join("site")).flags(&["--tls", "127.0.0.1:0", "--state", state]);
    made.start().stop();
    let (tool, address) = Activation::start(
        "udp",
        &["--datagram", "--fdname", "h3"],
        &folder.join("site"),
        &["--quic", "fd:h3", "--state", state],
    );
    let certificate = path.join("tls/self-signed-p256.crt");
    let peer = Peer::new(address, Protocol::Http3, Some(&certificate));
    let mut client = Client::open(&peer);
    assert_eq!(client.exchange(&Request::get("/")).text(), "home");
    drop(client);
    tool.stop();
}
