//! The work that documents have other programs do with files and streams: openssl converts files,
//! and curl reads events.

use super::Reader;
use pinion_tests::binary::source_root;
use pinion_tests::external_programs::{output, program, stdout};
use pinion_tests::passed_sockets::passing;
use pinion_tests::server::Start;
use pinion_tests::tls_certificates::openssl;
use pinion_tests::wait_for;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

/// The file with the events that a client has read of a stream.
const STREAMED: &str = "streamed";

impl Reader {
    /// Runs openssl. Files in other formats, which a document takes for granted, are made of a
    /// certificate and its key.
    pub(super) fn converts(&self, arguments: &[&str]) {
        const PASSWORD: &str = "pass:secret";
        let has = |name: &str| arguments.contains(&name);
        let mut converting = openssl(arguments[0]);
        converting.args(&arguments[1..]).current_dir(self.folder.path());
        let made = |command: &str, more: &[&str]| {
            self.certifies("");
            stdout(openssl(command).args(more).current_dir(self.folder.path()));
        };
        if has("encrypted.key") {
            let output = ["-aes256", "-passout", PASSWORD, "-out", "encrypted.key"];
            made("pkey", &[&["-in", "made.key"][..], &output].concat());
            converting.args(["-passin", PASSWORD]);
        }
        if has("site.p12") && has("-in") {
            let input = ["-export", "-in", "made.crt", "-inkey", "made.key"];
            let output = ["-passout", PASSWORD, "-out", "site.p12"];
            made("pkcs12", &[&input[..], &output].concat());
            converting.args(["-passin", PASSWORD]);
        }
        if has("site.cer") {
            made("x509", &["-in", "made.crt", "-outform", "der", "-out", "site.cer"]);
        }
        stdout(&mut converting);
        let names = arguments.windows(2).filter(|pair| ["-out", "-keyout"].contains(&pair[0]));
        for name in names.map(|pair| pair[1]) {
            let text = fs::read_to_string(self.folder.join(name)).expect(name);
            assert!(text.contains("-----BEGIN "), "{}: {name}", self.document.display());
        }
    }

    /// Starts a client that reads events, and waits until it has read one.
    pub(super) fn reads_a_stream(&mut self, address: &str) {
        let server = self.server.as_ref().expect("a document starts a server before it asks one");
        let address = address.replace("127.0.0.1:8080", &server.address().to_string());
        let output = fs::File::create(self.folder.join(STREAMED)).expect("a file");
        let mut curl = program("curl", "curl");
        curl.args(["--silent", "--show-error", "--fail", "--no-buffer", &address]);
        self.streams.push(curl.stdout(output).spawn().expect("curl"));
        wait_for("an event", || {
            let text = fs::read_to_string(self.folder.join(STREAMED)).expect("text");
            (!text.is_empty()).then_some(())
        });
    }

    /// Waits for the end of the clients of a stopped server: the document shows the events that
    /// they have read.
    pub(super) fn ends_streams(&mut self) {
        for mut stream in self.streams.drain(..) {
            let ended = wait_for("the end of a stream", || stream.try_wait().expect("its state"));
            assert!(ended.success(), "{}: {ended}", self.document.display());
            let text = fs::read_to_string(self.folder.join(STREAMED)).expect("text");
            let document = fs::read_to_string(&self.document).expect("a document");
            let block = format!("\n```text\n{}\n```\n", text.trim_end());
            assert!(document.contains(&block), "{}: not shown: {block}", self.document.display());
        }
    }

    /// Serves on a socket with a name, as the tool of systemd would pass it for the first client on
    /// a port of this machine. tests/tests/black_box/socket_activation.rs runs the tool.
    pub(super) fn serves_passed(&mut self, name: &str, command: &[&str]) {
        self.leaves();
        let ["pinion", "serve", site, "--listen", address] = command else {
            panic!("{}: {command:?}", self.document.display());
        };
        let start = Start::serve(&[site]).working_in(self.folder.path()).listening_at(address);
        let server = start.under(passing(&[format!("{name}=tcp")])).start();
        let page = fs::read(self.folder.join("public/index.html")).expect("the first page");
        assert_eq!(server.get("/").body, page);
        self.server = Some(server);
    }

    /// Runs journalctl on a folder without a journal: this machine may have none.
    pub(super) fn reads_the_journal(&self, arguments: &[&str]) {
        let mut journalctl = program("journalctl", "systemd");
        journalctl.args(arguments).arg("--no-pager").arg("--directory").arg(self.folder.path());
        let ended = output(&mut journalctl);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{}: {said}", self.document.display());
    }

    /// Runs logrotate with the configuration of the package, which it has to read without errors.
    /// tests/tests/black_box/systemd_and_container_files.rs rotates logs.
    pub(super) fn rotates(&self, configuration: &str) {
        assert_eq!(configuration, "/etc/logrotate.d/pinion", "{}", self.document.display());
        let text = fs::read_to_string(source_root().join("packaging/pinion.logrotate"));
        let text = text.expect("the configuration");
        self.folder.write("logrotate.conf", &text);
        // logrotate reads no file that others may write.
        let conf = self.folder.join("logrotate.conf");
        fs::set_permissions(&conf, fs::Permissions::from_mode(0o644)).expect("its owner");
        let mut logrotate = program("logrotate", "logrotate");
        logrotate.args(["--debug", "--state"]).arg(self.folder.join("state")).arg(conf);
        let ended = output(&mut logrotate);
        let said = String::from_utf8_lossy(&ended.stderr);
        let is_well = ended.status.success() && !said.contains("error:");
        assert!(is_well, "{}: {said}", self.document.display());
        // The document shows the same file.
        let document = fs::read_to_string(&self.document).expect("a document");
        if document.contains("\n/var/log/pinion/*.log {\n") {
            let rules = text.find("/var/log/pinion/*.log {").map(|at| &text[at..]);
            assert!(rules.is_some_and(|rules| document.contains(rules.trim_end())), "{text}");
        }
    }
}
