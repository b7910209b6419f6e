//! Certificates that openssl makes on demand, and its client.

use crate::external_programs::{output, program, stdout};
use crate::server::Server;
use crate::temporary_folder::Folder;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The supported kinds of keys, as arguments of `openssl genpkey`.
pub const KEYS: [&[&str]; 6] = [
    &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
    &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
    &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-521"],
    &["-algorithm", "ED25519"],
    &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
    &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:3072"],
];

/// A curve that OpenSSL supports and TLS does not.
pub const UNKNOWN_CURVE: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:secp256k1"];

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

impl Pair {
    /// Makes a self-signed one for these hosts, with a key of the first kind of [`KEYS`].
    #[track_caller]
    pub fn new(folder: &Folder, name: &str, hosts: &[&str]) -> Pair {
        Pair::with_key(folder, name, hosts, KEYS[0])
    }

    /// Makes a self-signed one with a key of this kind.
    #[track_caller]
    pub fn with_key(folder: &Folder, name: &str, hosts: &[&str], kind: &[&str]) -> Pair {
        Pair::made(folder, name, hosts, kind, &["-days", "2"])
    }

    /// Makes a self-signed one for these hosts, with further arguments of `openssl req`.
    #[track_caller]
    pub fn with_arguments(folder: &Folder, name: &str, hosts: &[&str], more: &[&str]) -> Pair {
        Pair::made(folder, name, hosts, KEYS[0], more)
    }

    #[track_caller]
    fn made(folder: &Folder, name: &str, hosts: &[&str], kind: &[&str], more: &[&str]) -> Pair {
        let pair = Pair::at(folder, name);
        stdout(openssl("genpkey").args(kind).arg("-out").arg(&pair.key));
        let mut request = openssl("req");
        request.arg("-x509").args(more).args(["-subj", "/CN=test", "-addext"]);
        request.arg(format!("subjectAltName={}", alternatives(hosts)));
        stdout(request.arg("-key").arg(&pair.key).arg("-out").arg(&pair.cert));
        pair
    }

    /// Makes an expired one.
    #[track_caller]
    pub fn expired(folder: &Folder, name: &str) -> Pair {
        let pair = Pair::at(folder, name);
        let (request, settings) = (folder.join("ca.csr"), folder.join("ca.cnf"));
        let text = format!(
            "[ca]\ndefault_ca = d\n[d]\ndatabase = {0}/index.txt\nserial = {0}/serial\n\
             new_certs_dir = {0}\ndefault_md = sha256\npolicy = p\nx509_extensions = x\n\
             [p]\ncommonName = supplied\n[x]\nsubjectAltName = DNS:old.test\n",
            folder.path().display()
        );
        folder.write("ca.cnf", text);
        folder.write("index.txt", "");
        folder.write("serial", "01\n");
        stdout(openssl("genpkey").args(KEYS[0]).arg("-out").arg(&pair.key));
        let mut csr = openssl("req");
        csr.args(["-new", "-subj", "/CN=old.test"]).arg("-key").arg(&pair.key);
        stdout(csr.arg("-out").arg(&request));
        let mut sign = openssl("ca");
        sign.args(["-batch", "-notext", "-selfsign", "-startdate", "20200101000000Z"]);
        sign.args(["-enddate", "20210101000000Z", "-config"]).arg(&settings).arg("-keyfile");
        stdout(sign.arg(&pair.key).arg("-in").arg(&request).arg("-out").arg(&pair.cert));
        pair
    }

    /// Makes one for these hosts that this pair signs, as an authority does for its clients.
    #[track_caller]
    pub fn vouch(&self, folder: &Folder, name: &str, hosts: &[&str]) -> Pair {
        let names = match hosts {
            [] => String::new(),
            hosts => format!("subjectAltName={}\n", alternatives(hosts)),
        };
        self.sign(folder, name, &format!("basicConstraints = CA:FALSE\n{names}"))
    }

    /// Makes an intermediate authority that this pair signs.
    #[track_caller]
    pub fn intermediate(&self, folder: &Folder, name: &str) -> Pair {
        self.sign(folder, name, "basicConstraints = critical, CA:TRUE\n")
    }

    #[track_caller]
    fn sign(&self, folder: &Folder, name: &str, extensions: &str) -> Pair {
        let pair = Pair::at(folder, name);
        let request = folder.join(format!("{name}.csr"));
        stdout(openssl("genpkey").args(KEYS[0]).arg("-out").arg(&pair.key));
        let mut csr = openssl("req");
        csr.args(["-new", "-subj", &format!("/CN={name}"), "-key"]).arg(&pair.key);
        stdout(csr.arg("-out").arg(&request));
        folder.write("signed.ext", extensions);
        let mut sign = openssl("x509");
        sign.args(["-req", "-days", "2", "-set_serial", "7", "-CA"]).arg(&self.cert);
        sign.arg("-CAkey").arg(&self.key).arg("-extfile").arg(folder.join("signed.ext"));
        stdout(sign.arg("-in").arg(&request).arg("-out").arg(&pair.cert));
        pair
    }

    /// Returns the same pair, whose file has the certificate of the issuer after its own.
    ///
    /// # Panics
    /// Panics if it cannot be written.
    #[must_use]
    pub fn chained(&self, issuer: &Pair) -> Pair {
        let chain = self.cert.with_extension("chain");
        let pem = [&self.cert, &issuer.cert].map(|file| fs::read(file).expect("a certificate"));
        fs::write(&chain, pem.concat()).expect("written");
        Pair { cert: chain, key: self.key.clone() }
    }

    /// Replaces the files of this pair by those of another one, as a renewal does.
    ///
    /// # Panics
    /// Panics if it cannot.
    pub fn become_like(&self, other: &Pair) {
        for (to, from) in [(&self.key, &other.key), (&self.cert, &other.cert)] {
            let new = to.with_extension("new");
            fs::copy(from, &new).expect("copied");
            fs::rename(&new, to).expect("renamed");
        }
    }

    /// Returns the two as flags.
    pub fn flags(&self) -> [String; 4] {
        let text = |path: &Path| path.display().to_string();
        ["--cert".to_owned(), text(&self.cert), "--key".to_owned(), text(&self.key)]
    }

    /// Writes both into one file.
    pub fn bundled(&self) -> PathBuf {
        let bundle = self.cert.with_extension("bundle");
        let read = |path: &Path| fs::read(path).expect("a file");
        fs::write(&bundle, [read(&self.key), read(&self.cert)].concat()).expect("written");
        bundle
    }

    fn at(folder: &Folder, name: &str) -> Pair {
        let file = |end: &str| folder.join(format!("{name}.{end}"));
        Pair { cert: file("crt"), key: file("key") }
    }
}

/// Returns hosts in the format of a certificate.
fn alternatives(hosts: &[&str]) -> String {
    hosts.iter().map(|host| format!("DNS:{host}")).collect::<Vec<_>>().join(",")
}

/// Returns the hash of a certificate's public key for browsers: SHA-256, in base64.
#[track_caller]
pub fn key_hash(certificate: &Path) -> String {
    const PIPE: &str = "openssl x509 -pubkey -noout -in \"$0\" | openssl pkey -pubin -outform der |
        openssl dgst -sha256 -binary | openssl base64";
    let hash = stdout(program("sh", "dash").args(["-c", PIPE]).arg(certificate));
    let hash = String::from_utf8(hash).expect("text").trim().to_owned();
    assert_eq!(hash.len(), 44, "{hash}");
    hash
}

/// Returns an openssl command.
#[track_caller]
pub fn openssl(command: &str) -> Command {
    let mut openssl = program("openssl", "openssl");
    openssl.arg(command);
    openssl
}

/// Returns the output of openssl's client about a connection on which it requests `/` of `host`.
#[track_caller]
pub fn s_client(folder: &Folder, address: SocketAddr, host: &str, flags: &[&str]) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    folder.write("request", request);
    // The client closes at the end of its input by default; with the flag it waits for the server's
    // end.
    let mut shell = program("sh", "dash");
    shell.args(["-c", "request=$1; shift; exec openssl s_client \"$@\" <\"$request\"", "sh"]);
    shell.arg(folder.join("request")).args(["-ign_eof", "-servername", host, "-connect"]);
    let output = output(shell.arg(address.to_string()).args(flags));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// Returns curl's response to `https://HOST/PATH`, with the certificates of `trusted`.
///
/// # Errors
/// Returns the error of curl.
#[track_caller]
pub fn curl(
    server: &Server,
    host: &str,
    path: &str,
    trusted: &Path,
    flags: &[&str],
) -> Result<String, String> {
    let address = server.address_of("https");
    let mut curl = program("curl", "curl");
    curl.args(["--silent", "--show-error", "--include", "--cacert"]).arg(trusted);
    curl.arg("--connect-to").arg(format!("{host}:443:{address}")).args(flags);
    let output = output(curl.arg(format!("https://{host}{path}")));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
