//! The PROXY protocol with curl and HAProxy: scripts and the access log get the address of their
//! client.

use pinion_tests::external_programs::{output, program};
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::fs;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = r#"pinion.get("/peer", function(req) return tostring(req.peer) end)"#;

/// Starts a server of the script that trusts these proxies, over TCP, TLS and a Unix socket.
fn start(io: Io, script: &Path, folder: &Folder, proxies: &str, flags: &[&str]) -> Server {
    let unix = format!("unix:{}", folder.join("pinion.sock").display());
    let log = folder.join("access.log");
    let (state, log) = (folder.join("state"), log.display().to_string());
    let start = Start::site(script).flags(&["--io", io.as_str(), "--tls", "127.0.0.1:0"]);
    let start = start.flags(&["--state".as_ref(), state.as_os_str()]);
    let start = start.flags(&["--listen", &unix, "--proxy-protocol", proxies]);
    start.flags(&["--access-log", &log]).flags(flags).start()
}

/// Returns the content that curl gets for a URL, or its error code.
fn curl(arguments: &[&str], url: &str) -> Result<String, i32> {
    let mut curl = program("curl", "curl");
    curl.args(["--silent", "--fail", "--insecure", "--max-time", "30"]).args(arguments).arg(url);
    let output = output(&mut curl);
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).expect("text"))
    } else {
        Err(output.status.code().expect("curl ends by itself"))
    }
}

/// The header of curl has the addresses of the socket itself, so it is accepted from any peer.
#[test]
fn curl_is_a_proxy_of_version_1() {
    const HEADER: &str = "--haproxy-protocol";
    const FROM: [&str; 2] = ["--interface", "127.0.0.7"];
    let (_script, script) = script(SCRIPT);
    for io in Io::BOTH {
        let folder = Folder::new("proxy-protocol");
        let server = start(io, &script, &folder, "127.0.0.0/8", &[]);
        let (http, https) = (server.address_of("http"), server.address_of("https"));
        let http = format!("http://{http}/peer");
        let https = format!("https://{https}/peer");
        for (url, version) in [
            (&http, "--http1.1"),
            (&http, "--http2-prior-knowledge"),
            (&https, "--http1.1"),
            (&https, "--http2"),
        ] {
            let from = [FROM[0], FROM[1], version];
            let proxied = [FROM[0], FROM[1], version, HEADER];
            assert_eq!(curl(&proxied, url).as_deref(), Ok("127.0.0.7"), "{version} {url} {io:?}");
            assert!(curl(&from, url).is_err(), "without a header: {version} {url} {io:?}");
        }
        // Clients of the Unix socket are not trusted: they send no header.
        let socket = folder.join("pinion.sock").display().to_string();
        let unix = ["--unix-socket", &socket];
        assert_eq!(curl(&unix, &http).as_deref(), Ok("nil"), "over {io:?}");
        server.stop();
        let server = start(io, &script, &folder, "192.0.2.0/24", &[]);
        let url = format!("http://{}/peer", server.address_of("http"));
        assert_eq!(curl(&FROM, &url).as_deref(), Ok("127.0.0.7"), "over {io:?}");
        // 22 is an error of HTTP.
        assert_eq!(curl(&[HEADER], &url), Err(22), "an address that nobody may claim");
        server.stop();
    }
}

/// HAProxy, until the value is dropped.
pub(crate) struct HaProxy(Child);

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _code = self.0.wait();
    }
}

impl HaProxy {
    /// Starts it in front of servers, each with its mode and options. Returns the port of each.
    pub(crate) fn start(folder: &Folder, servers: &[(&str, String)]) -> (HaProxy, Vec<u16>) {
        let mut config =
            "defaults\ntimeout connect 9s\ntimeout client 9s\ntimeout server 9s\n".to_owned();
        let (mut listeners, mut ports) = (Vec::new(), Vec::new());
        for (number, (mode, server)) in servers.iter().enumerate() {
            // HAProxy inherits a bound socket, so no other program can use its port.
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty()).expect("inherited");
            let socket = listener.as_raw_fd();
            config +=
                &format!("listen l{number}\nmode {mode}\nbind fd@{socket}\nserver s {server}\n");
            ports.push(listener.local_addr().expect("bound").port());
            listeners.push(listener);
        }
        folder.write("haproxy.cfg", config);
        let file = folder.join("haproxy.cfg");
        let mut command: Command = program("haproxy", "haproxy");
        command.args(["-db", "-f"]).arg(file).stdin(Stdio::null());
        (HaProxy(command.spawn().expect("HAProxy starts")), ports)
    }
}

#[test]
fn haproxy_passes_the_address_of_its_client() {
    let (_script, script) = script(SCRIPT);
    for io in Io::BOTH {
        let folder = Folder::new("proxy-protocol");
        // Over HTTP/2 it sends the scheme https, and is trusted because of its own address.
        let trusted = ["--proxy-protocol", "unix", "--trusted-proxy", "127.0.0.1"];
        let server = start(io, &script, &folder, "127.0.0.1", &trusted);
        let (http, https) = (server.address_of("http"), server.address_of("https"));
        let socket = folder.join("pinion.sock").display().to_string();
        let records = "send-proxy-v2 proxy-v2-options crc32c,authority,unique-id";
        let (haproxy, ports) = HaProxy::start(
            &folder,
            &[
                ("tcp", format!("{http} send-proxy")),
                ("tcp", format!("{http} send-proxy-v2")),
                ("tcp", format!("{https} send-proxy-v2")),
                ("tcp", format!("unix@{socket} send-proxy-v2")),
                ("http", format!("{http} send-proxy-v2-ssl-cn")),
                ("http", format!("{http} {records}")),
                ("http", format!("{http} proto h2 send-proxy-v2")),
            ],
        );
        for (at, port) in ports.iter().enumerate() {
            let scheme = if at == 2 { "https" } else { "http" };
            let url = format!("{scheme}://127.0.0.1:{port}/peer");
            let client = format!("127.0.0.{}", 10 + at);
            let came = curl(&["--interface", &client], &url);
            assert_eq!(came, Ok(client), "listener {at} over {io:?}");
        }
        drop(haproxy);
        let log = folder.join("access.log");
        let lines = wait_for("a line for each request", || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            (text.lines().count() == ports.len()).then_some(text)
        });
        for at in 0..ports.len() {
            let start = format!("127.0.0.{} - - [", 10 + at);
            assert_eq!(lines.lines().filter(|line| line.starts_with(&start)).count(), 1, "{lines}");
        }
        server.stop();
    }
}
