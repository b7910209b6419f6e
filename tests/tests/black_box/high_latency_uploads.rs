//! Uploads over a path with a long delay, with real clients. Packets travel in turns, so that round
//! trips are counted: the windows of a client determine how much it may send in one. Feature
//! `long`, because the test mostly waits.

use pinion_tests::PATIENCE;
use pinion_tests::body::noise;
use pinion_tests::delayed_network::{LongPath, SERVER};
use pinion_tests::external_programs::{output_within, program, python_program};
use pinion_tests::matrix::{Form, Io, Way};
use pinion_tests::protocol::Protocol;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::process::{Command, Stdio};

const UPLOAD_BYTES: usize = 8 << 20;

const SITE: &str = r#"
pinion.post("/upload", { body = 2^25 }, function(req)
    local bytes = 0
    while true do
        local piece = req:read(65536)
        if not piece then return "got " .. bytes end
        bytes = bytes + #piece
    end
end)
"#;

/// The client script; its head describes it.
const H3_CLIENT: &str = include_str!("../../src/h3_client.py");

fn site() -> Folder {
    let folder = Folder::with("long-path", [("site/main.lua", SITE)]);
    folder.write("site/public_html/index.html", "home");
    folder.write("site/public_html/small.bin", noise(1000));
    folder.write("large.bin", noise(UPLOAD_BYTES));
    folder.write("small.bin", noise(1000));
    folder
}

/// Starts a server on its side of the path; returns it with its port there.
#[track_caller]
fn start(folder: &Folder, path: &LongPath, io: Io, protocol: Protocol) -> (Server, String) {
    let flag = if protocol == Protocol::Http3 { "--quic" } else { "--listen" };
    let way = Way { protocol, io, form: Form::Folder };
    let address = format!("{SERVER}:0");
    let start = Start::site(&folder.join("site")).in_way(way);
    let flags = [flag, &address, "--lua-time", "600"];
    let server = start.flags(&flags).under(path.on_server()).start();
    let line = server.wait_for_line(0, |line| line.contains(SERVER));
    let port = line.split_once(&format!("{SERVER}:")).map(|(_, port)| port);
    let port = port.and_then(|port| port.split('/').next()).expect("a port").to_owned();
    (server, port)
}

/// Returns the round trips of an upload.
#[track_caller]
fn upload(folder: &Folder, path: &mut LongPath, mut client: Command, words: &[&str]) -> u32 {
    path.round_trips();
    let output = output_within(client.args(words), 4 * PATIENCE);
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?} in {folder:?}: {said}{complaint}");
    assert_eq!(said, format!("got {UPLOAD_BYTES}"), "{words:?}: {complaint}");
    path.round_trips()
}

#[track_caller]
fn curl(folder: &Folder, path: &mut LongPath, port: &str, version: &str) -> u32 {
    let mut client = path.on_client();
    client.arg(program("curl", "curl").get_program());
    let content = format!("@{}", folder.join("large.bin").display());
    let url = format!("http://{SERVER}:{port}/upload");
    let plain = ["--disable", "--silent", "--show-error", "--noproxy", "*", version];
    let post = ["--data-binary", &content, "--header", "Expect:", &url];
    upload(folder, path, client, &[&plain[..], &post[..]].concat())
}

#[track_caller]
fn aioquic(folder: &Folder, path: &mut LongPath, port: &str, scenario: &str) -> u32 {
    let mut client = path.on_client();
    client.arg(python_program("python").get_program());
    let files = folder.path().display().to_string();
    upload(folder, path, client, &["-c", H3_CLIENT, scenario, port, &files])
}

/// Versions that curl supports without TLS.
const CURL_VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

/// A window of 64 KiB would take 128 round trips, one of 32 KiB twice as many. Slow start of the
/// client and the growth of the windows take some; over HTTP/1 there is only slow start.
#[test]
fn uploads_take_few_round_trips_over_every_protocol() {
    let folder = site();
    for io in Io::BOTH {
        let mut path = LongPath::new();
        let (server, port) = start(&folder, &path, io, Protocol::Http1);
        let http1 = curl(&folder, &mut path, &port, "--http1.1");
        let http2 = curl(&folder, &mut path, &port, "--http2-prior-knowledge");
        server.stop();
        let (server, port) = start(&folder, &path, io, Protocol::Http3);
        let http3 = aioquic(&folder, &mut path, &port, "far_upload");
        server.stop();
        let counts = format!("HTTP/1 {http1}, HTTP/2 {http2}, HTTP/3 {http3}");
        eprintln!("{io:?}: {counts}");
        // A client that is delayed for long sends in more turns.
        assert!(http1.max(http2).max(http3) < 96, "{io:?}: {counts}");
    }
}

/// Packets are lost, delayed, and delayed by different times; the seed decides which.
#[test]
fn uploads_arrive_over_a_path_that_loses_packets() {
    let folder = site();
    for (io, seed) in Io::BOTH.into_iter().zip(["1", "2"]) {
        let flags = ["--delay-ms", "10", "--jitter-ms", "5", "--loss", "5", "--seed", seed];
        let mut path = LongPath::with(&flags);
        let (server, port) = start(&folder, &path, io, Protocol::Http1);
        for version in CURL_VERSIONS {
            curl(&folder, &mut path, &port, version);
        }
        server.stop();
        let (server, port) = start(&folder, &path, io, Protocol::Http3);
        aioquic(&folder, &mut path, &port, "far_upload");
        server.stop();
    }
}

/// An upload delays no other request: small requests take few round trips meanwhile, on other
/// connections and on the same one.
#[test]
fn an_upload_does_not_delay_small_requests() {
    /// A new connection needs two. curl needs some time to start, in which the upload continues.
    const TRIPS_MAX: u32 = 24;
    let folder = site();
    let small = noise(1000);
    for io in Io::BOTH {
        let mut path = LongPath::new();
        let (server, port) = start(&folder, &path, io, Protocol::Http1);
        for version in CURL_VERSIONS {
            let mut client = path.on_client();
            client.arg(program("curl", "curl").get_program());
            let content = format!("@{}", folder.join("large.bin").display());
            let url = format!("http://{SERVER}:{port}");
            client.args(["--disable", "--silent", "--noproxy", "*", version, "--limit-rate", "1M"]);
            client.args(["--data-binary", &content, "--header", "Expect:"]);
            client.arg(format!("{url}/upload")).stdout(Stdio::piped());
            path.round_trips();
            let upload = client.spawn().expect("curl starts");
            wait_for("the upload", || (path.round_trips() > 0).then_some(()));
            for _ in 0..3 {
                let mut client = path.on_client();
                client.arg(program("curl", "curl").get_program());
                client.args(["--disable", "--silent", "--noproxy", "*", version]);
                let output = output_within(client.arg(format!("{url}/small.bin")), PATIENCE);
                assert!(output.stdout == small, "{version} over {io:?}");
                let trips = path.round_trips();
                eprintln!("{version} over {io:?}: {trips} round trips");
                assert!(trips < TRIPS_MAX, "{version} over {io:?}: {trips} round trips");
            }
            let uploaded = upload.wait_with_output().expect("curl ends");
            let said = String::from_utf8_lossy(&uploaded.stdout);
            assert_eq!(said, format!("got {UPLOAD_BYTES}"), "{version} over {io:?}");
        }
        server.stop();
        let (server, port) = start(&folder, &path, io, Protocol::Http3);
        aioquic(&folder, &mut path, &port, "far_beside");
        server.stop();
    }
}
