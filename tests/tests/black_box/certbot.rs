//! docs/certbot.md with certbot itself and an authority for ACME (Pebble): the first certificate is
//! ordered while Pinion serves the challenges, then HTTPS is turned on, and a renewal is loaded
//! while it runs.

use pinion_tests::binary::source_root;
use pinion_tests::client::Client;
use pinion_tests::client::byte_stream::Peer;
use pinion_tests::document_blocks::{fenced_commands, marked, words};
use pinion_tests::external_programs::{acme_program, output, program, stdout};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{Pair, curl};
use pinion_tests::{SetAtEnd, wait_for};
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// A program that runs until the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _status = self.0.wait();
    }
}

/// An authority and the names that it looks up, all of which lead to this machine.
struct Authority {
    _names: Running,
    _authority: Running,
    /// The URL under which certbot finds it.
    directory: String,
    /// The URL of its root certificate.
    management: String,
    /// The certificate of its own HTTPS.
    own: Pair,
}

/// Ports that are free now: below those that the kernel gives to others (`ip_local_port_range` in
/// ip(7)).
fn free_ports<const N: usize>() -> [u16; N] {
    let first = 10_000 + (std::process::id() % 15_000) as u16;
    let is_free = |port: &u16| {
        TcpListener::bind(("127.0.0.1", *port)).is_ok()
            && UdpSocket::bind(("127.0.0.1", *port)).is_ok()
    };
    let mut free = (first..32_000).filter(is_free);
    [(); N].map(|()| free.next().expect("a free port"))
}

impl Authority {
    /// Starts an authority that connects to this port for challenges.
    fn start(files: &Folder, challenge_port: u16) -> Self {
        let [listening, managing, naming, naming_management, tls] = free_ports();
        let own = Pair::new(files, "authority", &["localhost"]);
        let names = format!("127.0.0.1:{naming}");
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{listening}"),
            "managementListenAddress": format!("127.0.0.1:{managing}"),
            "certificate": own.cert,
            "privateKey": own.key,
            "httpPort": challenge_port,
            "tlsPort": tls,
            "externalAccountBindingRequired": false,
        }});
        files.write("pebble.json", config.to_string());
        let mut naming = acme_program("pebble-challtestsrv");
        naming.args(["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dnsserver", &names]);
        naming.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""]);
        naming.args(["-management", &format!("127.0.0.1:{naming_management}")]);
        let mut authority = acme_program("pebble");
        authority.args(["-dnsserver", &names, "-config"]).arg(files.join("pebble.json"));
        authority.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "0");
        let start = |command: &mut Command| {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            Running(command.spawn().expect("it starts"))
        };
        let authority = Self {
            _names: start(&mut naming),
            _authority: start(&mut authority),
            directory: format!("https://localhost:{listening}/dir"),
            management: format!("https://localhost:{managing}"),
            own,
        };
        wait_for("the authority", || authority.get(&authority.directory));
        authority
    }

    fn get(&self, url: &str) -> Option<Vec<u8>> {
        let mut curl = program("curl", "curl");
        curl.args(["--silent", "--fail", "--cacert"]).arg(&self.own.cert);
        let got = output(curl.arg(url));
        got.status.success().then_some(got.stdout)
    }

    /// Writes its root certificate to a file.
    fn root(&self, files: &Folder) -> PathBuf {
        let root = self.get(&format!("{}/roots/0", self.management)).expect("the root");
        files.write("root.pem", root);
        files.join("root.pem")
    }
}

/// Returns the commands of a document that begin with `begin`, without sudo.
fn commands_of(page: &str, begin: &str) -> Vec<String> {
    let commands = fenced_commands(page).into_iter();
    let commands = commands.filter_map(|command| Some(command.strip_prefix("sudo ")?.to_owned()));
    commands.filter(|command| command.starts_with(begin)).collect()
}

/// The folder that certbot keeps everything in, in the place of /etc/letsencrypt.
const LETSENCRYPT: &str = "letsencrypt";

/// The files that the document has in the folders of the system are below a folder of the test.
struct Reader {
    files: Folder,
    page: String,
    /// The port of HTTP, to which the authority connects.
    port: u16,
}

impl Reader {
    fn new() -> Self {
        let files = Folder::with("certbot", [("www/index.html", "home")]);
        let page = fs::read_to_string(source_root().join("docs/certbot.md")).expect("the page");
        fs::create_dir(files.join("acme")).expect("the webroot");
        let [port] = free_ports();
        Self { files, page, port }
    }

    /// Returns a text of the document with the paths of the test.
    fn moved(&self, text: &str) -> String {
        let below = |name: &str| self.files.join(name).display().to_string();
        text.replace("/srv/www/example", &below("www"))
            .replace("/var/lib/acme", &below("acme"))
            .replace("/etc/letsencrypt", &below(LETSENCRYPT))
    }

    /// Writes a configuration of the document, on other ports.
    fn configures(&self, number: usize) -> PathBuf {
        let configurations = marked(&self.page, "toml");
        let text = self.moved(&configurations[number]);
        let text = text.replace("\":80\"", &format!("\"127.0.0.1:{}\"", self.port));
        let text = text.replace("\":443\"", "\"127.0.0.1:0\"");
        self.files.write("pinion.toml", text);
        self.files.join("pinion.toml")
    }

    fn commands(&self, begin: &str) -> Vec<String> {
        commands_of(&self.page, begin)
    }

    /// Runs certbot with the words of the document and of the test.
    #[track_caller]
    fn certbot(&self, authority: &Authority, command: &str, more: &[&str]) {
        let command = self.moved(command);
        let words = words(&command);
        assert_eq!(words[0], "certbot");
        let mut certbot = program("certbot", "certbot");
        certbot.args(&words[1..]).args(more);
        for (flag, name) in
            [("--config-dir", LETSENCRYPT), ("--work-dir", "work"), ("--logs-dir", "logs")]
        {
            certbot.arg(flag).arg(self.files.join(name));
        }
        certbot.args(["--server", &authority.directory, "--non-interactive", "--agree-tos"]);
        certbot.arg("--register-unsafely-without-email").arg("--no-random-sleep-on-renew");
        certbot.env("REQUESTS_CA_BUNDLE", &authority.own.cert);
        stdout(&mut certbot);
    }

    fn key(&self) -> PathBuf {
        self.files.join(LETSENCRYPT).join("live/example.org/privkey.pem")
    }
}

/// The commands of certbot in documents are exactly the ones that run here.
#[test]
fn the_recipe_has_the_same_commands() {
    let recipe = source_root().join("docs/recipes/lets-encrypt.md");
    let recipe = fs::read_to_string(recipe).expect("the recipe");
    let commands = commands_of(&recipe, "certbot ");
    assert_eq!(commands, Reader::new().commands("certbot "));
    assert_eq!(commands.len(), 2);
}

#[test]
fn the_documented_commands_order_and_renew_a_certificate() {
    let reader = Reader::new();
    let server = Start::configured(&reader.configures(0)).start();
    let authority = Authority::start(&reader.files, reader.port);
    let [order] = &reader.commands("certbot certonly")[..] else { panic!("one order") };
    reader.certbot(&authority, order, &[]);
    server.stop();

    let root = authority.root(&reader.files);
    let lets_group_read = |key: &Path| {
        // The group of the service is made by `groupadd`, which the test leaves alone.
        let group = fs::metadata(key).expect("the key").gid().to_string();
        for command in [reader.commands("chgrp"), reader.commands("chmod")].concat() {
            let command = reader.moved(&command).replace("pinion-keys", &group);
            let words = words(&command);
            stdout(program(&words[0], "coreutils").args(&words[1..]));
        }
    };
    lets_group_read(&reader.key());
    let mode = |key: &Path| fs::metadata(key).expect("the key").permissions().mode() & 0o777;
    assert_eq!(mode(&reader.key()), 0o640, "the group may read it");

    let server = Start::configured(&reader.configures(1)).start();
    for host in ["example.org", "www.example.org"] {
        let got = curl(&server, host, "/", &root, &[]).expect("a certificate of the authority");
        assert!(got.ends_with("home"), "{host}: {got}");
    }
    renews(&reader, &server, &authority);
    assert_eq!(mode(&reader.key()), 0o640, "the mode stays, as the document says");
    let plain = Peer::plain(([127, 0, 0, 1], reader.port).into());
    let moved = Client::open(&plain).exchange(&Request::get("/a").host("example.org"));
    assert_eq!(moved.status, 308);
    server.stop();
}

/// Renews the certificate during requests, none of which fails; the authority connects to the
/// listener that redirects.
fn renews(reader: &Reader, server: &Server, authority: &Authority) {
    let root = reader.files.join("root.pem");
    let [renewal] = &reader.commands("certbot renew")[..] else { panic!("one renewal") };
    let before = fs::read_link(reader.key()).expect("a link");
    let (over, answered) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let got = curl(server, "example.org", "/", &root, &[]).expect("an answer");
                assert!(got.ends_with("home"), "{got}");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _at_end = SetAtEnd(&over);
        reader.certbot(authority, renewal, &[]);
        assert_eq!(fs::read_link(reader.key()).expect("a link"), before, "a dry run");
        let said = server.lines().len();
        let for_good = renewal.replace("--dry-run", "--force-renewal");
        reader.certbot(authority, &for_good, &[]);
        server.wait_for_line(said, |line| line.starts_with("reloaded certificate "));
        assert_ne!(fs::read_link(reader.key()).expect("a link"), before, "another key");
    });
    assert!(answered.load(Ordering::Relaxed) > 0);
    let got = curl(server, "example.org", "/", &root, &[]);
    assert!(got.is_ok_and(|got| got.ends_with("home")), "the new certificate");
}
