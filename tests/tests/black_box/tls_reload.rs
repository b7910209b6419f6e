//! Certificate files that change while they are served.

use pinion_tests::SetAtEnd;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{Pair, curl};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

fn serve(files: &Folder, pair: &Pair) -> Server {
    files.write("site/index.html", "home");
    Start::site(&files.join("site")).tls(pair).start()
}

/// Writes a file with both certificates, for a client that accepts either.
fn both(files: &Folder, pairs: [&Pair; 2]) -> std::path::PathBuf {
    let read = |pair: &Pair| fs::read(&pair.cert).expect("a certificate");
    files.write("both.pem", [read(pairs[0]), read(pairs[1])].concat());
    files.join("both.pem")
}

fn is_trusted(server: &Server, trusted: &Path) -> bool {
    curl(server, "a.test", "/", trusted, &[]).is_ok()
}

#[test]
fn changed_certificates_are_loaded_without_failed_requests() {
    let files = Folder::new("reload");
    let served = Pair::new(&files, "served", &["a.test"]);
    let (one, two) = (Pair::new(&files, "one", &["a.test"]), Pair::new(&files, "two", &["a.test"]));
    served.become_like(&one);
    let server = serve(&files, &served);
    let either = both(&files, [&one, &two]);
    assert!(is_trusted(&server, &one.cert) && !is_trusted(&server, &two.cert));
    let (over, answered) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let got = curl(&server, "a.test", "/", &either, &[]).expect("an answer");
                assert!(got.ends_with("home"), "{got}");
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        let _at_end = SetAtEnd(&over);
        for next in [&two, &one, &two] {
            let said = server.lines().len();
            served.become_like(next);
            server.wait_for_line(said, |line| line.starts_with("reloaded certificate "));
            assert!(is_trusted(&server, &next.cert));
        }
    });
    assert!(!is_trusted(&server, &one.cert) && is_trusted(&server, &two.cert));
    assert!(answered.load(Ordering::Relaxed) > 0);
    server.stop();
}

/// `live/` of certbot and `..data` of Kubernetes change like this: a link is switched to another
/// file, or to another folder.
#[test]
fn switched_symbolic_links_are_followed_automatically() {
    let files = Folder::new("links");
    let (one, two) = (Pair::new(&files, "one", &["a.test"]), Pair::new(&files, "two", &["a.test"]));
    for (name, pair) in [("1", &one), ("2", &two)] {
        fs::create_dir(files.join(name)).expect("made");
        fs::copy(&pair.cert, files.join(name).join("tls.crt")).expect("copied");
        fs::copy(&pair.key, files.join(name).join("tls.key")).expect("copied");
    }
    let lead = |link: &str, to: &str| {
        symlink(to, files.join("new-link")).expect("a link");
        fs::rename(files.join("new-link"), files.join(link)).expect("renamed");
    };
    lead("..data", "1");
    lead("data.crt", "..data/tls.crt");
    lead("data.key", "..data/tls.key");
    lead("live.crt", "1/tls.crt");
    lead("live.key", "1/tls.key");
    let of = |name: &str| Pair {
        cert: files.join(format!("{name}.crt")),
        key: files.join(format!("{name}.key")),
    };
    for (name, links) in [
        ("data", &[("..data", "2")][..]),
        ("live", &[("live.crt", "2/tls.crt"), ("live.key", "2/tls.key")]),
    ] {
        let server = serve(&files, &of(name));
        assert!(is_trusted(&server, &one.cert) && !is_trusted(&server, &two.cert));
        links.iter().for_each(|(link, to)| lead(link, to));
        server.wait_for_line(0, |line| line.starts_with("reloaded certificate "));
        assert!(!is_trusted(&server, &one.cert) && is_trusted(&server, &two.cert));
        server.stop();
    }
}

#[test]
fn an_unusable_pair_on_disk_keeps_the_previous_certificate() {
    let files = Folder::new("bad-watched");
    let served = Pair::new(&files, "served", &["a.test"]);
    let (kept, other) = (files.join("kept.pem"), Pair::new(&files, "other", &["a.test"]));
    fs::copy(&served.cert, &kept).expect("copied");
    let server = serve(&files, &served);
    let said = server.lines().len();
    fs::copy(&other.key, &served.key).expect("copied");
    let logged = server.wait_for_line(said, |line| line.contains("certificate"));
    let (key, cert) = (served.key.display(), served.cert.display());
    let expected = format!(
        "pinion: cannot reload certificate {cert}, keeping the previous one: {key}: the private \
         key does not belong to the certificate in {cert}; "
    );
    assert!(logged.starts_with(&expected), "{logged}");
    assert!(is_trusted(&server, &kept));
    // The other half of the pair is reloaded automatically, and each message is printed once.
    fs::copy(&other.cert, &served.cert).expect("copied");
    server.wait_for_line(said, |line| line.starts_with("reloaded certificate "));
    assert!(is_trusted(&server, &other.cert));
    assert_eq!(server.lines().len(), said + 2, "{:?}", server.lines());
    server.stop();
}

#[test]
fn an_unusable_pair_at_sighup_keeps_the_previous_certificate() {
    let files = Folder::new("bad-reload");
    let served = Pair::new(&files, "served", &["a.test"]);
    let kept = files.join("kept.pem");
    fs::copy(&served.cert, &kept).expect("copied");
    let other = Pair::new(&files, "other", &["a.test"]);
    let server = serve(&files, &served);
    for (change, why) in [
        (&other.key, "the private key does not belong to the certificate in"),
        (&kept, "has no private key"),
    ] {
        let said = server.lines().len();
        fs::copy(change, &served.key).expect("copied");
        server.signal(Signal::HUP);
        let logged = server.wait_for_line(said, |line| line.contains("certificate"));
        let (key, cert) = (served.key.display(), served.cert.display());
        let head = format!(
            "pinion: cannot reload certificate {cert}, keeping the previous one: {key}: {why}"
        );
        assert!(logged.starts_with(&head), "{logged}");
        assert!(is_trusted(&server, &kept));
    }
    let said = server.lines().len();
    served.become_like(&other);
    server.wait_for_line(said, |line| line.starts_with("reloaded certificate "));
    assert!(is_trusted(&server, &other.cert));
    server.stop();
}

/// The log reports when the files are valid again.
#[test]
fn restored_certificate_files_are_reported_as_valid_again() {
    let files = Folder::new("restored");
    let served = Pair::new(&files, "served", &["a.test"]);
    let kept = fs::read(&served.key).expect("a key");
    let server = serve(&files, &served);
    let restored = format!(
        "certificate {} can be loaded again and is unchanged: valid until ",
        served.cert.display()
    );
    let said = server.lines().len();
    fs::write(&served.key, "no key").expect("written");
    server.signal(Signal::HUP);
    server.wait_for_line(said, |line| line.starts_with("pinion: cannot reload certificate "));
    fs::write(&served.key, &kept).expect("written");
    server.signal(Signal::HUP);
    server.wait_for_line(said, |line| line.starts_with(&restored));
    server.signal(Signal::HUP);
    let lines = server.last_words();
    assert_eq!(lines.iter().filter(|line| line.starts_with(&restored)).count(), 1, "{lines:?}");
}

#[test]
fn a_reloaded_configuration_changes_the_certificates() {
    let files = Folder::with("config", [("site/index.html", "home")]);
    let (one, two) = (Pair::new(&files, "one", &["a.test"]), Pair::new(&files, "two", &["b.test"]));
    let write = |names: &[&str]| {
        let table =
            |name: &&str| format!("[[certificate]]\ncert = \"{name}.crt\"\nkey = \"{name}.key\"\n");
        let tables: String = names.iter().map(table).collect();
        let listen = "[[listen]]\naddress = \"127.0.0.1:0\"\n[[listen]]\ntls = \"127.0.0.1:0\"\n";
        files.write("pinion.toml", format!("[[site]]\npath = \"site\"\n{listen}{tables}"));
    };
    write(&["one"]);
    let server = Start::site(&files.join("pinion.toml")).start();
    let got = |host: &str, pair: &Pair| curl(&server, host, "/", &pair.cert, &[]).is_ok();
    assert!(got("a.test", &one) && !got("b.test", &two));
    write(&["one", "two"]);
    let said = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(said, |line| line.contains("two.crt: valid until"));
    assert!(got("a.test", &one) && got("b.test", &two));
    // A missing certificate: all certificates stay.
    write(&["none"]);
    let said = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(said, |line| line.contains("none.crt: does not exist"));
    assert!(got("a.test", &one) && got("b.test", &two));
    let lines = server.lines();
    assert!(!lines.iter().any(|line| line.contains("restart is needed")), "{lines:?}");
    server.stop();
}

/// The key and the folder of a self-signed certificate are settings that need a restart.
#[test]
fn removing_all_certificates_is_reported_and_keeps_the_last_ones() {
    let files = Folder::with("none-left", [("site/index.html", "home")]);
    let pair = Pair::new(&files, "a", &["a.test"]);
    let listen = "[[site]]\npath = \"site\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
                  [[listen]]\ntls = \"127.0.0.1:0\"\n";
    let certificate = "[[certificate]]\ncert = \"a.crt\"\nkey = \"a.key\"\n";
    files.write("pinion.toml", format!("{listen}{certificate}"));
    let server = Start::site(&files.join("pinion.toml")).start();
    let restart = |line: &str| line.ends_with("a restart is needed for a self-signed one");
    for _ in 0..2 {
        files.write("pinion.toml", listen);
        let said = server.lines().len();
        server.signal(Signal::HUP);
        server.wait_for_line(said, restart);
        assert!(is_trusted(&server, &pair.cert));
        // With a certificate again there is nothing to wait for.
        files.write("pinion.toml", format!("{listen}{certificate}"));
        let said = server.lines().len();
        server.signal(Signal::HUP);
        server.wait_for_line(said, |line| line.starts_with("reloaded "));
        assert!(!server.lines().iter().skip(said).any(|line| restart(line)));
    }
    server.stop();
}
