//! Certificates and keys: which of them a client gets, and the messages about those that cannot be
//! served. openssl makes them and curl checks them.

use pinion_tests::binary::pinion;
use pinion_tests::external_programs::{output, program, stdout};
use pinion_tests::server::{Ended, Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::tls_certificates::{KEYS, Pair, UNKNOWN_CURVE, curl, openssl, s_client};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

fn site() -> Folder {
    Folder::with("tls", [("index.html", "home")])
}

fn serve(site: &Folder, flags: &[String]) -> Server {
    Start::site(site.path()).flags(&["--tls", "127.0.0.1:0"]).flags(flags).start()
}

#[test]
fn every_kind_of_key_is_served_from_one_file_or_two() {
    let (site, files) = (site(), Folder::new("keys"));
    for (number, kind) in KEYS.iter().enumerate() {
        let pair = Pair::with_key(&files, &number.to_string(), &["a.test"], kind);
        let bundle = ["--cert".to_owned(), pair.bundled().display().to_string()];
        for flags in [&pair.flags()[..], &bundle[..]] {
            let server = serve(&site, flags);
            for version in ["-tls1_2", "-tls1_3"] {
                let output = s_client(&files, server.address_of("https"), "a.test", &[version]);
                assert!(output.contains("HTTP/1.1 200"), "{kind:?} {version}: {output}");
            }
            let got = curl(&server, "a.test", "/", &pair.cert, &[]).expect("an answer");
            assert!(got.ends_with("home"), "{kind:?}: {got}");
            server.stop();
        }
    }
}

/// Forms of keys that older programs write: PKCS#1, and SEC1 with the curve in front.
#[test]
fn older_forms_of_keys_are_served() {
    let (site, files) = (site(), Folder::new("older-keys"));
    let rsa = Pair::with_key(&files, "rsa", &["a.test"], KEYS[4]);
    let old = files.join("old.key");
    let mut traditional = openssl("pkey");
    stdout(traditional.arg("-traditional").arg("-in").arg(&rsa.key).arg("-out").arg(&old));
    let ec = files.join("ec.key");
    let mut generate = openssl("ecparam");
    stdout(generate.args(["-name", "prime256v1", "-genkey", "-out"]).arg(&ec));
    for (key, begins) in
        [(&old, "-----BEGIN RSA PRIVATE KEY-----\n"), (&ec, "-----BEGIN EC PARAMETERS-----\n")]
    {
        let text = fs::read_to_string(key).expect("a key");
        assert!(text.starts_with(begins), "{text}");
        let cert = key.with_extension("crt");
        let mut request = openssl("req");
        request.args(["-x509", "-days", "2", "-subj", "/CN=test", "-addext"]);
        request.arg("subjectAltName=DNS:a.test").arg("-key").arg(key).arg("-out").arg(&cert);
        stdout(&mut request);
        let pair = Pair { cert, key: key.clone() };
        let server = serve(&site, &pair.flags());
        let got = curl(&server, "a.test", "/", &pair.cert, &[]).expect("an answer");
        assert!(got.ends_with("home"), "{begins}: {got}");
        server.stop();
    }
}

#[test]
fn no_client_gets_an_older_version() {
    let (site, files) = (site(), Folder::new("old"));
    let server = serve(&site, &Pair::new(&files, "a", &["a.test"]).flags());
    let flags = ["-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"];
    let output = s_client(&files, server.address_of("https"), "a.test", &flags);
    assert!(output.contains("alert") && output.contains("Cipher is (NONE)"), "{output}");
    server.stop();
}

#[test]
fn a_client_gets_the_certificate_of_the_host_it_asks_for() {
    let (site, files) = (site(), Folder::new("sni"));
    let first = Pair::new(&files, "first", &["first.test"]);
    let wild = Pair::new(&files, "wild", &["*.b.test"]);
    let exact = Pair::new(&files, "exact", &["a.b.test"]);
    let flags = [first.flags(), wild.flags(), exact.flags()].concat();
    let server = serve(&site, &flags);
    for (host, pair) in
        [("first.test", &first), ("a.b.test", &exact), ("A.B.test", &exact), ("x.b.test", &wild)]
    {
        let got = curl(&server, host, "/", &pair.cert, &[]);
        assert!(got.is_ok_and(|got| got.ends_with("home")), "{host}");
    }
    // A client that requests another host, or none, gets the first certificate.
    let shown = openssl("x509").arg("-in").arg(&first.cert).output().expect("openssl");
    let shown = String::from_utf8(shown.stdout).expect("PEM");
    for host in ["x.y.b.test", "unknown.test"] {
        let text = s_client(&files, server.address_of("https"), host, &[]);
        assert!(text.contains(shown.trim_end()), "{host}: {text}");
    }
    let address = server.address_of("https").to_string();
    let text = openssl("s_client")
        .args(["-noservername", "-connect", &address])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("openssl");
    assert!(String::from_utf8_lossy(&text.stdout).contains(shown.trim_end()));
    server.stop();
}

/// RFC 6066 §3: a text that is no DNS name is unknown to the server, and no reason to refuse a
/// client. Several programs send the host with its port.
#[test]
fn an_invalid_server_name_gets_the_first_certificate() {
    let (site, files) = (site(), Folder::new("no-name"));
    let first = Pair::new(&files, "first", &["first.test"]);
    let flags = [first.flags(), Pair::new(&files, "second", &["second.test"]).flags()].concat();
    let shown = fs::read_to_string(&first.cert).expect("PEM");
    let client = first.vouch(&files, "client", &["client.test"]);
    let authority = ["--client-ca".to_owned(), first.cert.display().to_string()];
    let (cert, key) = (client.cert.to_str().expect("text"), client.key.to_str().expect("text"));
    let session = files.join("session");
    let session = session.to_str().expect("text");
    for needs_certificate in [false, true] {
        let mut flags = flags.clone();
        flags.extend(authority.iter().filter(|_| needs_certificate).cloned());
        let server = serve(&site, &flags);
        let address = server.address_of("https");
        for version in ["-tls1_3", "-tls1_2"] {
            for name in ["localhost:8443", "[foo.com]", "a..b", "123", "a b", "-", "."] {
                let ask = |more: &[&str]| {
                    let flags = [&[version, "-cert", cert, "-key", key, "-servername", name], more];
                    s_client(&files, address, "localhost", &flags.concat())
                };
                let output = ask(&["-sess_out", session]);
                // With TLS 1.2 a client signs the handshake itself, and its library has another
                // copy of the name.
                if needs_certificate && version == "-tls1_2" {
                    assert!(output.contains("alert"), "{version} {name}: {output}");
                    continue;
                }
                assert!(output.contains("HTTP/1.1 200"), "{version} {name}: {output}");
                assert!(output.contains(shown.trim_end()), "{version} {name}: {output}");
                let again = ask(&["-sess_in", session]);
                assert!(again.contains("HTTP/1.1 200"), "{version} {name}: {again}");
                assert_eq!(again.contains("Reused, "), !needs_certificate, "{version} {name}");
            }
        }
        server.stop();
    }
}

/// RFC 8446 §4.4.2: a client that trusts only the root has to get the intermediate certificates.
#[test]
fn a_chain_is_served_as_far_as_the_file_has_it() {
    let (site, files) = (site(), Folder::new("chain"));
    let root = Pair::new(&files, "root", &["root.test"]);
    let intermediate = root.intermediate(&files, "intermediate");
    let leaf = intermediate.vouch(&files, "leaf", &["a.test"]);
    for (pair, is_whole) in [(leaf.chained(&intermediate), true), (leaf, false)] {
        let server = serve(&site, &pair.flags());
        for version in ["1.2", "1.3"] {
            let got = curl(&server, "a.test", "/", &root.cert, &["--tls-max", version]);
            match (is_whole, got) {
                (true, Ok(got)) => assert!(got.ends_with("home"), "{got}"),
                (false, Err(error)) => assert!(error.contains("issuer certificate"), "{error}"),
                (_, other) => panic!("TLS {version}, whole: {is_whole}: {other:?}"),
            }
        }
        server.stop();
    }
}

/// Returns the message about a key of another certificate, with the commands that compare the two.
fn not_its(key: &Path, cert: &Path) -> String {
    let (key, cert) = (key.display(), cert.display());
    format!(
        "{key}: the private key does not belong to the certificate in {cert}; `openssl x509 \
         -noout -pubkey -in {cert}` and `openssl pkey -pubout -in {key}` have to print the same"
    )
}

#[track_caller]
fn fails(site: &Folder, cert: &Path, key: &Path, why: &str) {
    let [site, cert, key] = [site.path(), cert, key].map(|path| path.display().to_string());
    let flags = ["--tls", "127.0.0.1:0", "--cert", &cert, "--key", &key];
    does_not_start(&[&["serve", &site], &flags[..]].concat(), why);
}

#[track_caller]
fn does_not_start(arguments: &[&str], why: &str) {
    let Ended { code, stdout, stderr } = run(arguments);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    assert_eq!(stderr, format!("pinion: cannot start: {why}\n"));
}

#[test]
fn an_unusable_certificate_is_one_line_that_names_the_file() {
    let (site, files) = (site(), Folder::new("bad"));
    let pair = Pair::new(&files, "a", &["a.test"]);
    let other = Pair::new(&files, "b", &["b.test"]);
    let odd = Pair::with_key(&files, "odd", &["a.test"], UNKNOWN_CURVE);
    let (cert, key) = (pair.cert.display(), pair.key.display());
    let not_its = not_its(&other.key, &pair.cert);
    fails(&site, &pair.cert, &other.key, &not_its);
    let unusable = format!(
        "{}: the private key cannot be used: it is damaged, or none of RSA (2048 bits or more), \
         ECDSA on P-256, P-384 or P-521, Ed25519",
        odd.key.display()
    );
    fails(&site, &odd.cert, &odd.key, &unusable);
    let missing = files.join("none.key");
    let none = format!("{}: does not exist; give the file of the private key", missing.display());
    fails(&site, &pair.cert, &missing, &none);
    let folder = format!("{}: is a folder; give a PEM file", files.path().display());
    fails(&site, &pair.cert, files.path(), &folder);
    let no_cert = format!("{key}: has no certificate (-----BEGIN CERTIFICATE-----)");
    fails(&site, &pair.key, &pair.key, &no_cert);
    let no_key = format!(
        "{cert}: has no private key (-----BEGIN PRIVATE KEY-----); give the private key with --key"
    );
    fails(&site, &pair.cert, &pair.cert, &no_key);
    // The certificate is correct, so the message is only about the truncated key.
    let cut = files.join("cut.key");
    fs::write(&cut, &fs::read(&pair.key).expect("a key")[..100]).expect("written");
    let damaged = format!(
        "{}: damaged PEM file: a -----BEGIN line has no -----END line; copy the file again",
        cut.display()
    );
    fails(&site, &pair.cert, &cut, &damaged);
    let locked = files.join("locked.key");
    let mut lock = openssl("pkey");
    lock.args(["-aes256", "-passout", "pass:x", "-in"]).arg(&pair.key).arg("-out");
    assert!(lock.arg(&locked).status().expect("openssl").success());
    // Without extensions openssl makes a certificate of version 1.
    let first = files.join("v1.crt");
    let mut request = openssl("req");
    request.args(["-new", "-subj", "/CN=a.test", "-key"]).arg(&pair.key);
    stdout(request.arg("-out").arg(files.join("v1.csr")));
    let mut sign = openssl("x509");
    sign.args(["-req", "-signkey"]).arg(&pair.key).arg("-in").arg(files.join("v1.csr"));
    stdout(sign.arg("-out").arg(&first));
    let bad = format!(
        "{}: certificate 1 of the file cannot be read: it is damaged, or not an X.509 certificate \
         of version 3",
        first.display()
    );
    fails(&site, &first, &pair.key, &bad);
    let encrypted = format!(
        "{0}: the private key is encrypted; remove the password: openssl pkey -in {0} -out \
         plain.key",
        locked.display()
    );
    fails(&site, &pair.cert, &locked, &encrypted);
}

/// The server runs as a user who may not read all files, even if the test runs as root. The program
/// is copied to a place where that user can execute it.
#[test]
fn an_unreadable_key_is_named() {
    const NOBODY: &str = "65534";
    let (site, files) = (site(), Folder::new("rights"));
    let pair = Pair::new(&files, "a", &["a.test"]);
    let is_root = fs::metadata(&pair.key).expect("a key").uid() == 0;
    let mode = if is_root { 0o600 } else { 0 };
    fs::set_permissions(&pair.key, fs::Permissions::from_mode(mode)).expect("set");
    let copy = files.join("pinion");
    fs::copy(pinion(), &copy).expect("copied");
    let mut start = if is_root {
        let mut setpriv = program("setpriv", "util-linux");
        setpriv.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&copy);
        setpriv
    } else {
        Command::new(&copy)
    };
    start.arg("serve").arg(site.path()).args(["--tls", "127.0.0.1:0"]).args(pair.flags());
    let Ended { code, stdout, stderr } = output(&mut start).into();
    let key = pair.key.display();
    let why = format!(
        "pinion: cannot start: {key}: cannot be read: Permission denied; let the user that runs \
         Pinion read the file and enter the folders above it\n"
    );
    assert_eq!((code, stdout.as_str(), stderr), (Some(1), "", why));
}

#[test]
fn an_expired_certificate_is_served_with_a_warning() {
    let (site, files) = (site(), Folder::new("expired"));
    let old = Pair::expired(&files, "old");
    let server = serve(&site, &old.flags());
    let warning = format!(
        "pinion: warning: {}: the certificate expired on 2021-01-01T00:00:00Z; clients refuse it",
        old.cert.display()
    );
    assert!(server.lines().contains(&warning), "{:?}", server.lines());
    let refused = curl(&server, "old.test", "/", &old.cert, &[]).expect_err("it has expired");
    assert!(refused.contains("certificate"), "{refused}");
    let got = curl(&server, "old.test", "/", &old.cert, &["--insecure"]).expect("an answer");
    assert!(got.ends_with("home"), "{got}");
    server.stop();
}

#[test]
fn check_finds_the_errors_of_every_certificate_in_a_file() {
    let files = Folder::with("check", [("site/index.html", "home")]);
    Pair::new(&files, "a", &["a.test"]);
    Pair::new(&files, "b", &["b.test"]);
    Pair::expired(&files, "old");
    let listen = "[[site]]\npath = \"site\"\n[[listen]]\ntls = \"127.0.0.1:0\"\n";
    let pairs = "[[certificate]]\ncert = \"a.crt\"\nkey = \"b.key\"\n\
                 [[certificate]]\ncert = \"none.crt\"\n\
                 [[certificate]]\nkey = \"a.key\"\n";
    files.write("pinion.toml", format!("{listen}client-ca = \"a.key\"\n{pairs}"));
    let config = files.join("pinion.toml").display().to_string();
    let folder = files.path().display();
    let ended = run(&["check", &config]);
    let expected = [
        (
            "5:13",
            format!("client-ca: {folder}/a.key: has no certificate (-----BEGIN CERTIFICATE-----)"),
        ),
        ("8:7", format!("key: {}", not_its(&files.join("b.key"), &files.join("a.crt")))),
        (
            "10:8",
            format!("cert: {folder}/none.crt: does not exist; give the file of the certificate"),
        ),
        ("11:1", "[[certificate]] lacks cert".to_owned()),
    ];
    let lines = expected.map(|(place, why)| format!("{config}:{place}: {why}\n"));
    assert_eq!((ended.code, ended.stdout), (Some(2), lines.concat()), "{}", ended.stderr);
    let old = "[[certificate]]\ncert = \"old.crt\"\nkey = \"old.key\"\n";
    files.write("pinion.toml", format!("{listen}{old}"));
    let ended = run(&["check", &config]);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert!(ended.stderr.contains("old.crt: the certificate expired on"), "{}", ended.stderr);
}

/// Certificates that all clients will refuse soon, or that some clients refuse already.
#[test]
fn check_warns_about_certificates_that_some_clients_refuse() {
    let files = Folder::with("warned", [("site/index.html", "home")]);
    let days = |days| ["-days", days];
    Pair::with_arguments(&files, "fine", &["a.test", "*.b.test"], &days("90"));
    Pair::with_arguments(&files, "soon", &["soon.test"], &days("13"));
    let stapled = [&days("90")[..], &["-addext", "tlsfeature=status_request"]].concat();
    Pair::with_arguments(&files, "stapled", &["stapled.test"], &stapled);
    let check = |certificate: &str, hosts: &str| {
        let text = format!(
            "[[site]]\npath = \"site\"\nhosts = {hosts}\n[[listen]]\ntls = \"127.0.0.1:0\"\n\
             [[certificate]]\ncert = \"{certificate}.crt\"\nkey = \"{certificate}.key\"\n"
        );
        files.write("pinion.toml", text);
        let ended = run(&["check", &files.join("pinion.toml").display().to_string()]);
        assert_eq!(ended.code, Some(0), "{}", ended.stdout);
        ended.stderr
    };
    let hosts = r#"["a.test", "x.b.test", "*.b.test", "192.0.2.1", "[::1]"]"#;
    assert_eq!(check("fine", hosts), "");
    for host in ["b.test", "x.a.test", "*.a.test"] {
        let warned = check("fine", &format!("[\"a.test\", \"{host}\"]"));
        assert_eq!(warned.lines().count(), 1, "{warned}");
        assert!(warned.contains(&format!("no certificate names {host};")), "{warned}");
    }
    let warned = check("fine", r#"["a.test", "b.test"]"#);
    let config = files.join("pinion.toml").display().to_string();
    let place = format!("warning: {config}:3:20: hosts: no certificate names b.test");
    assert!(warned.starts_with(&place), "{warned}");
    let warned = check("soon", r#"["soon.test"]"#);
    assert!(warned.contains("soon.crt: the certificate expires on "), "{warned}");
    assert!(warned.contains("in 12 days") || warned.contains("in 13 days"), "{warned}");
    let warned = check("stapled", r#"["stapled.test"]"#);
    assert!(warned.contains("asks for a stapled OCSP response"), "{warned}");
}

/// Browsers only use subject alternative names, and redirects lead to a host that a certificate has
/// to name. A check and a start warn about this.
#[test]
fn a_certificate_that_names_no_host_for_browsers_is_a_warning() {
    let files = Folder::with("unnamed", [("site/index.html", "home")]);
    let pair = Pair { cert: files.join("plain.crt"), key: files.join("plain.key") };
    let mut request = openssl("req");
    request.args(["-x509", "-days", "90", "-subj", "/CN=a.test", "-nodes", "-newkey", "rsa:2048"]);
    request.args(["-addext", "keyUsage=digitalSignature"]);
    stdout(request.arg("-keyout").arg(&pair.key).arg("-out").arg(&pair.cert));
    files.write("file", "not a folder");
    let text = "[[site]]\npath = \"site\"\n[[listen]]\ntls = \"127.0.0.1:0\"\n[[listen]]\n\
                redirect-http = \"127.0.0.1:0\"\n[[certificate]]\ncert = \"plain.crt\"\n\
                key = \"plain.key\"\n[tls]\ncanonical-host = \"b.test\"\n\
                acme-webroot = \"file\"\n[log]\naccess = \"site/access.txt\"\n";
    files.write("pinion.toml", text);
    let config = files.join("pinion.toml").display().to_string();
    let folder = files.path().display();
    let checked = run(&["check", &config]);
    let no_names = format!(
        "{folder}/plain.crt: the certificate has no subject alternative name (SAN), and clients \
         refuse it; order one that has the host as a SAN"
    );
    let webroot =
        format!("{folder}/file is a file; give the folder that the ACME client writes to");
    let log = format!(
        "the access log {folder}/site/access.txt is in the folder of the site {folder}/site, where \
         clients may read it; write it to another folder"
    );
    for warning in [
        no_names.clone(),
        format!("{config}:11:18: canonical-host: no certificate names b.test; browsers refuse it"),
        format!("{config}:12:16: acme-webroot: {webroot}"),
        format!("{config}:14:10: access: {log}"),
    ] {
        let line = format!("warning: {warning}\n");
        assert!(checked.stderr.contains(&line), "{line}{}", checked.stderr);
    }
    let lines = Start::site(Path::new(&config)).start().last_words();
    for warning in [
        no_names,
        "redirects lead to b.test (--canonical-host), which no certificate names; browsers refuse \
         it"
        .to_owned(),
        format!("--acme-webroot: {webroot}"),
        log,
    ] {
        let line = format!("pinion: warning: {warning}");
        assert!(lines.contains(&line), "{line}: {lines:?}");
    }
}

/// With the certificate of a client, given by mistake in place of an authority, no client would be
/// accepted.
#[test]
fn an_invalid_client_authority_ends_the_start_and_is_named() {
    let files = Folder::with("no-authority", [("site/index.html", "home")]);
    let pair = Pair::new(&files, "a", &["a.test"]);
    let authority = Pair::new(&files, "authority", &["authority.test"]);
    let someone = authority.vouch(&files, "someone", &[]);
    // The certificate is used alone, and after one of an authority.
    for (number, ca) in [(1, &someone), (2, &authority.chained(&someone))] {
        let file = ca.cert.file_name().and_then(|name| name.to_str()).expect("a plain name");
        let config = format!(
            "[[site]]\npath = \"site\"\n[[certificate]]\ncert = \"a.crt\"\nkey = \"a.key\"\n\
             [[listen]]\ntls = \"127.0.0.1:0\"\nclient-ca = \"{file}\"\n"
        );
        files.write("pinion.toml", config);
        let [site, config, ca, cert, key] =
            [&files.join("site"), &files.join("pinion.toml"), &ca.cert, &pair.cert, &pair.key]
                .map(|path| path.display().to_string());
        let why = format!(
            "{ca}: certificate {number} of the file cannot be used as that of an authority"
        );
        let flags = ["--tls", "127.0.0.1:0", "--cert", &cert, "--key", &key, "--client-ca", &ca];
        does_not_start(&[&["serve", &site], &flags[..]].concat(), &why);
        does_not_start(&["serve", &config], &why);
        let ended = run(&["check", &config]);
        let line = format!("{config}:8:13: client-ca: {why}\n");
        assert_eq!((ended.code, ended.stdout), (Some(2), line), "{}", ended.stderr);
    }
}
