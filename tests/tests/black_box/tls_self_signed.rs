//! The certificate that the server makes itself.

use pinion_tests::external_programs::stdout;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{curl, openssl};
use pinion_tests::wait_for;
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::thread;

fn serve(site: &Folder, state: &Path, flags: &[&str]) -> Server {
    let state = state.display().to_string();
    let start = Start::site(site.path()).flags(&["--tls", "127.0.0.1:0", "--state", &state]);
    start.flags(flags).start()
}

/// Returns the file and the fingerprint in the log.
fn printed_certificate(server: &Server) -> (PathBuf, String) {
    let line = server.wait_for_line(0, |line| line.starts_with("self-signed certificate "));
    let rest = line.trim_start_matches("self-signed certificate ");
    let (file, sum) = rest.split_once(", SHA-256 ").expect("a fingerprint");
    (file.into(), sum.to_owned())
}

fn site() -> Folder {
    Folder::with("self", [("index.html", "home")])
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

#[test]
fn a_certificate_is_created_once_with_a_private_key() {
    let (site, state) = (site(), Folder::new("state"));
    let folder = state.join("new/state");
    for (word, kind) in [
        ("p256", "ASN1 OID: prime256v1"),
        ("ed25519", "ED25519 Public-Key"),
        ("rsa2048", "Public-Key: (2048 bit)"),
    ] {
        let server = serve(&site, &folder, &["--tls-self", word]);
        let (file, sum) = printed_certificate(&server);
        let both = file.with_extension("pem");
        assert_eq!((mode(&file), mode(&both)), (0o644, 0o600));
        let contents = fs::read_to_string(&file).expect("a certificate");
        assert!(!contents.contains("PRIVATE"), "{contents}");
        // Others get through to the certificate, if the folder above is one that lets them.
        assert_eq!((mode(&folder), mode(&folder.join("tls"))), (0o700, 0o711));
        let mut shown = openssl("x509");
        shown.args(["-noout", "-text", "-fingerprint", "-sha256", "-in"]);
        let shown = String::from_utf8(stdout(shown.arg(&file))).expect("text");
        assert!(shown.contains(&format!("sha256 Fingerprint={sum}")), "{sum}: {shown}");
        assert!(shown.contains(kind), "{shown}");
        let names = ["DNS:localhost", "IP Address:127.0.0.1", "IP Address:0:0:0:0:0:0:0:1"];
        assert!(names.iter().all(|name| shown.contains(name)), "{shown}");
        let got = curl(&server, "localhost", "/", &file, &[]).expect("an answer");
        assert!(got.ends_with("home"), "{got}");
        server.stop();
        let again = serve(&site, &folder, &["--tls-self", word]);
        assert_eq!(printed_certificate(&again), (file, sum));
        again.stop();
    }
}

#[test]
fn servers_that_start_together_share_one_certificate() {
    let (site, state) = (site(), Folder::new("together"));
    let sums: Vec<_> = thread::scope(|scope| {
        let start = || {
            let server = serve(&site, state.path(), &[]);
            let sum = printed_certificate(&server);
            server.stop();
            sum
        };
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(start)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a start")).collect()
    });
    assert!(sums.windows(2).all(|pair| pair[0] == pair[1]), "{sums:?}");
    let names = fs::read_dir(state.join("tls")).expect("the folder");
    assert_eq!(names.count(), 2, "nothing is left behind");
}

#[test]
fn a_soon_expiring_certificate_is_renewed_at_start() {
    let (site, state) = (site(), Folder::new("renewed"));
    let server = serve(&site, state.path(), &[]);
    let (file, first) = printed_certificate(&server);
    server.stop();
    // A certificate that is valid for two days replaces it.
    let short = pinion_tests::tls_certificates::Pair::new(&state, "short", &["localhost"]);
    fs::copy(short.bundled(), file.with_extension("pem")).expect("copied");
    let server = serve(&site, state.path(), &[]);
    let (again, second) = printed_certificate(&server);
    assert_eq!(again, file);
    assert_ne!(first, second);
    let until = openssl("x509")
        .args(["-noout", "-checkend", "2592000", "-in"])
        .arg(&file)
        .status()
        .expect("openssl");
    assert!(until.success(), "it is valid for a month and more");
    assert_eq!((mode(&file), mode(&file.with_extension("pem"))), (0o644, 0o600));
    server.stop();
}

/// A server that runs longer than the validity of a certificate checks it each day, and at SIGHUP.
#[test]
fn a_running_server_renews_a_soon_expiring_certificate() {
    let (site, state) = (site(), Folder::new("renewed-running"));
    renews_a_short_one(serve(&site, state.path(), &[]), &state);
}

#[test]
fn a_server_with_a_configuration_renews_its_certificate() {
    let state = Folder::with("renewed-configured", [("site/index.html", "home")]);
    let listen = "[[listen]]\naddress = \"127.0.0.1:0\"\n[[listen]]\ntls = \"127.0.0.1:0\"\n";
    state.write("pinion.toml", format!("[[site]]\npath = \"site\"\n{listen}"));
    let folder = state.path().display().to_string();
    let start = Start::site(&state.join("pinion.toml")).flags(&["--state", &folder]);
    renews_a_short_one(start.start(), &state);
}

#[track_caller]
fn renews_a_short_one(server: Server, state: &Folder) {
    let (file, first) = printed_certificate(&server);
    let short = pinion_tests::tls_certificates::Pair::new(state, "short", &["localhost"]);
    let both = file.with_extension("pem");
    fs::copy(short.bundled(), state.join("tls/next")).expect("copied");
    fs::rename(state.join("tls/next"), &both).expect("renamed");
    let lines = server.lines().len();
    server.signal(Signal::HUP);
    // The one that took its place may be seen before the signal is; it is not the last one.
    let is_new = || {
        let printed = server.lines().split_off(lines);
        let last = printed.iter().rfind(|line| line.starts_with("self-signed certificate "))?;
        let until = openssl("x509")
            .args(["-noout", "-checkend", "2592000", "-in"])
            .arg(&file)
            .output()
            .expect("openssl");
        (until.status.success() && !last.ends_with(&first)).then_some(())
    };
    wait_for("a certificate that is good for long", is_new);
    // A client that trusts the new certificate is served, without a restart in between.
    wait_for("an answer", || curl(&server, "localhost", "/", &file, &[]).ok());
    let trusts_short = curl(&server, "localhost", "/", &short.cert, &[]);
    assert!(trusts_short.is_err(), "{trusts_short:?}");
    server.stop();
}

#[test]
fn an_unusable_state_folder_is_one_line() {
    let (site, state) = (site(), Folder::new("wrong"));
    state.write("file", "");
    state.write("kept/tls/self-signed-p256.pem", "damaged");
    let site = site.path().display().to_string();
    let start = |state: &Path| {
        run(&["serve", &site, "--tls", "127.0.0.1:0", "--state", &state.display().to_string()])
    };
    let ended = start(&state.join("file"));
    let file = state.join("file");
    let why = format!("pinion: cannot start: cannot make the state folder {}", file.display());
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.starts_with(&why), "{}", ended.stderr);
    let ended = start(&state.join("kept"));
    let why = format!(
        "pinion: cannot start: {}: has no certificate (-----BEGIN CERTIFICATE-----); remove the \
         file, and another certificate is made\n",
        state.join("kept/tls/self-signed-p256.pem").display()
    );
    assert_eq!((ended.code, ended.stderr), (Some(1), why));
}

/// Without `--state` the folder is that of the service manager, then that of the session, then that
/// of the home folder.
#[test]
fn the_state_folder_follows_the_environment() {
    let (site, state) = (site(), Folder::new("found"));
    let path = |name: &str| state.join(name).display().to_string();
    let all = [
        ("STATE_DIRECTORY", format!("{}:{}", path("service"), path("other")), "service/tls"),
        ("XDG_STATE_HOME", path("session"), "session/pinion/tls"),
        ("HOME", path("home"), "home/.local/state/pinion/tls"),
    ];
    for at in 0..all.len() {
        let mut runner = pinion_tests::external_programs::program("env", "coreutils");
        runner.args(all.iter().map(|(name, ..)| format!("--unset={name}")));
        runner.args(all[at..].iter().map(|(name, value, _)| format!("{name}={value}")));
        let start = Start::site(site.path()).flags(&["--tls", "127.0.0.1:0"]).under(runner);
        let server = start.start();
        let (file, _) = printed_certificate(&server);
        assert_eq!(file.parent(), Some(state.join(all[at].2).as_path()));
        server.stop();
    }
}
