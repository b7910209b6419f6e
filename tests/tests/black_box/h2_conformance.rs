//! HTTP/2 with programs of other projects: h2spec and httpwg, which break each rule in turn, and
//! the clients curl, nghttp and h2load.

use pinion_tests::body::noise;
use pinion_tests::external_programs::{
    crate_program, go_program, output, output_within, program, stdout,
};
use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::Pair;
use std::net::SocketAddr;
use std::time::Duration;

/// The number of all cases of h2spec.
const CASES: u32 = 146;

/// Sections and cases of h2spec for a site of files. The five omitted ones (7/2, 8.1/1, 8.1.2.1/3,
/// 8.1.2.6) begin a POST and break the rules within it. By then the server has refused the request,
/// and its further frames are not those that h2spec waits for (docs/decisions/0026).
const SITE_SECTIONS: [&str; 14] = [
    "generic",
    "hpack",
    "http2/3",
    "http2/4",
    "http2/5",
    "http2/6",
    "http2/7/1",
    "http2/8.1.2/1",
    "http2/8.1.2.1/1",
    "http2/8.1.2.1/2",
    "http2/8.1.2.1/4",
    "http2/8.1.2.2",
    "http2/8.1.2.3",
    "http2/8.2",
];

/// The number of cases in these sections.
const SITE_CASES: u32 = 141;

/// The number of all cases of httpwg.
const HTTPWG_CASES: u32 = 107;

/// A server of one backend with HTTP/2 over TLS and without.
struct Served {
    server: Server,
    _files: Folder,
}

impl Served {
    fn start(io: Io, arguments: &[&str]) -> Served {
        let files = Folder::new("h2");
        let pair = Pair::new(&files, "a", &["localhost"]);
        let start = Start::serve(arguments).flags(&["--io", io.as_str()]);
        Served { server: start.tls(&pair).start(), _files: files }
    }

    /// Starts a server whose responses are delayed a little, so that streams are open while a
    /// client sends frames.
    fn dummy(io: Io, flags: &[&str]) -> Served {
        Served::start(io, &[&["--dummy", "--dummy-delay", "60ms"], flags].concat())
    }

    /// Returns the addresses with TLS and without.
    fn addresses(&self) -> [(&'static str, SocketAddr); 2] {
        ["https", "http"].map(|scheme| (scheme, self.server.address_of(scheme)))
    }
}

/// Returns whether h2spec, with these arguments, runs this many cases and finds no error; and its
/// output.
fn h2spec(scheme: &str, address: SocketAddr, arguments: &[&str], cases: u32) -> (bool, String) {
    // The expected frames arrive immediately or not at all: this time is enough for a busy machine,
    // and h2spec waits for it in every case that has no other end.
    let mut command = go_program("h2spec");
    command.args(["--strict", "--timeout", "4", "--host"]).arg(address.ip().to_string());
    command.arg("--port").arg(address.port().to_string());
    if scheme == "https" {
        command.args(["--tls", "--insecure"]);
    }
    let output = output_within(command.args(arguments), Duration::from_secs(300));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let all = format!("{cases} tests, {cases} passed, 0 skipped, 0 failed");
    (output.status.success() && text.contains(&all), text)
}

#[track_caller]
fn every_case_of_h2spec(times: u32) {
    for io in Io::BOTH {
        let served = Served::dummy(io, &["--protocols", "h2"]);
        for (scheme, address) in served.addresses() {
            for round in 0..times {
                let (is_right, text) = h2spec(scheme, address, &[], CASES);
                assert!(is_right, "{scheme} over {io:?}, round {round}\n{text}");
            }
        }
        served.server.stop();
    }
}

#[test]
fn h2spec_finds_nothing() {
    every_case_of_h2spec(1);
}

/// h2spec breaks the rules while files are sent. Only as much of the large file is sent as the
/// window allows, so its stream is open for as long as a case may need.
#[test]
fn h2spec_finds_nothing_where_files_are_served() {
    let arguments = [&["--path", "/large.bin"][..], &SITE_SECTIONS].concat();
    for io in Io::BOTH {
        let (served, _site) = site(io, &["--protocols", "h2"]);
        for (scheme, address) in served.addresses() {
            let (is_right, text) = h2spec(scheme, address, &arguments, SITE_CASES);
            assert!(is_right, "{scheme} over {io:?}\n{text}");
        }
        served.server.stop();
    }
}

/// A failure once in twenty runs affects real clients.
#[cfg(feature = "long")]
#[test]
fn h2spec_finds_nothing_in_many_rounds() {
    every_case_of_h2spec(20);
}

/// Returns whether httpwg has passed, and its output. It only uses HTTP/2 without TLS.
fn httpwg(address: SocketAddr) -> (bool, String) {
    let mut command = crate_program("httpwg");
    // Timeouts longer than any delay of a response, and than any quiet time of a connection.
    command.args(["--connect-timeout", "5000", "--frame-timeout", "5000", "--address"]);
    let output = output_within(command.arg(address.to_string()), Duration::from_secs(300));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let all = format!("{HTTPWG_CASES}/{HTTPWG_CASES}");
    (output.status.success() && text.contains(&all), text)
}

#[track_caller]
fn every_case_of_httpwg(times: u32) {
    for io in Io::BOTH {
        // httpwg sends the frames of a stream error in more than one piece, and expects no response
        // in between.
        let slow = ["--dummy", "--dummy-delay", "1s", "--protocols", "h2"];
        let served = Served::start(io, &slow);
        for round in 0..times {
            let (is_right, text) = httpwg(served.server.address_of("http"));
            assert!(is_right, "over {io:?}, round {round}\n{text}");
        }
        served.server.stop();
    }
}

#[test]
fn httpwg_finds_nothing() {
    every_case_of_httpwg(1);
}

#[cfg(feature = "long")]
#[test]
fn httpwg_finds_nothing_in_many_rounds() {
    every_case_of_httpwg(20);
}

/// h2load sends this many requests, over ten connections with ten streams each, and counts the
/// responses.
#[test]
fn h2load_gets_every_response() {
    const REQUESTS: u32 = 5000;
    for io in Io::BOTH {
        let served = Served::start(io, &["--dummy", "--protocols", "h2"]);
        for (scheme, address) in served.addresses() {
            let mut h2load = program("h2load", "nghttp2-client");
            h2load.args(["-n", &REQUESTS.to_string(), "-c", "10", "-m", "10"]);
            let output = stdout(h2load.arg(format!("{scheme}://{address}/")));
            let output = String::from_utf8_lossy(&output);
            let all = format!("{REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout");
            assert!(output.contains(&all), "{scheme} over {io:?}: {output}");
            assert!(output.contains(&format!("status codes: {REQUESTS} 2xx")), "{output}");
        }
        served.server.stop();
    }
}

/// Returns a site of three files, with both listeners.
fn site(io: Io, flags: &[&str]) -> (Served, Folder) {
    let folder = Folder::with("h2-site", [("index.html", "home")]);
    folder.write("small.bin", noise(5 << 10));
    folder.write("large.bin", noise(3 << 20));
    let path = folder.path().display().to_string();
    (Served::start(io, &[&[path.as_str()], flags].concat()), folder)
}

/// Runs curl over HTTP/2, negotiated by TLS or with prior knowledge.
fn curl(scheme: &str, flags: &[&str], url: &str) -> std::process::Output {
    let mut curl = program("curl", "curl");
    curl.args(["--disable", "--silent", "--show-error", "--insecure", "--noproxy", ""]);
    curl.args(["--max-time", "50"]);
    curl.arg(if scheme == "https" { "--http2" } else { "--http2-prior-knowledge" });
    output(curl.args(flags).arg(url))
}

#[test]
fn curl_and_nghttp_get_the_content() {
    for io in Io::BOTH {
        let (served, _site) = site(io, &[]);
        for (scheme, address) in served.addresses() {
            let url = |path: &str| format!("{scheme}://{address}{path}");
            let got =
                curl(scheme, &["--write-out", "%{stderr}%{http_version}"], &url("/large.bin"));
            assert_eq!(got.stderr, b"2", "{scheme} over {io:?}");
            assert!(got.status.success() && got.stdout == noise(3 << 20), "{scheme} over {io:?}");
            // Several requests at once on one connection, with the smallest possible windows.
            let mut nghttp = program("nghttp", "nghttp2-client");
            nghttp.args(["--no-dep", "--window-bits=10", "--connection-window-bits=16"]);
            let content = stdout(nghttp.arg(url("/large.bin")));
            assert!(content == noise(3 << 20), "{scheme} over {io:?}");
            let mut nghttp = program("nghttp", "nghttp2-client");
            nghttp.args(["--stat", "--null-out", "--multiply=50"]);
            let output = stdout(nghttp.arg(url("/small.bin")));
            let output = String::from_utf8_lossy(&output);
            assert_eq!(output.matches(" 200 ").count(), 50, "{scheme} over {io:?}: {output}");
        }
        served.server.stop();
    }
}

/// RFC 7541 §4.2: an encoder acknowledges a smaller table size in front of the next field section.
/// nghttp ends the connection if a section has no such acknowledgement.
#[test]
fn a_smaller_hpack_table_is_acknowledged_to_nghttp() {
    for io in Io::BOTH {
        let (served, _site) = site(io, &[]);
        for (scheme, address) in served.addresses() {
            // A table of size 0, and one whose size was 0 for a moment.
            for sizes in [&[0][..], &[0, 4096]] {
                let mut nghttp = program("nghttp", "nghttp2-client");
                nghttp.args(["--stat", "--null-out", "--multiply=50"]);
                nghttp.args(sizes.iter().map(|bytes| format!("--header-table-size={bytes}")));
                let output = stdout(nghttp.arg(format!("{scheme}://{address}/small.bin")));
                let output = String::from_utf8_lossy(&output);
                let responses = output.matches(" 200 ").count();
                assert_eq!(responses, 50, "{scheme} over {io:?}, {sizes:?}: {output}");
            }
        }
        served.server.stop();
    }
}

/// Unread content of a request does not prevent the response.
#[test]
fn unread_request_content_does_not_block_the_response() {
    for io in Io::BOTH {
        let (served, folder) = site(io, &[]);
        folder.write("upload", noise(20 << 10));
        let upload = format!("@{}", folder.join("upload").display());
        for (scheme, address) in served.addresses() {
            let url = format!("{scheme}://{address}/small.bin");
            let flags = ["--data-binary", &upload, "--header", "Expect:", "--write-out"];
            let got = curl(scheme, &[&flags[..], &["%{stderr}%{http_code}"]].concat(), &url);
            let output = String::from_utf8_lossy(&got.stderr);
            assert!(got.status.success() && output == "405", "{scheme} over {io:?}: {output}");
        }
        served.server.stop();
    }
}
