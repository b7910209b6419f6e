//! The servers that are compared, and how each is started.

use super::certificates::{self, Key, Pair};
use super::measured_server::{self, SERVER_CORE, Server};
use super::served_content::{self, Many};
use crate::bench::peers::{self, Peer};
use crate::debian_packages::{self, Need, Proof};
use crate::{process, workspace_paths};
use anyhow::{Context, Result};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs and files of other projects that this bench uses.
const NEEDS: &[Need] = &[
    Need { package: "gcc", proof: Proof::Program("gcc") },
    Need { package: "libc6-dev", proof: Proof::File("/usr/include/stdlib.h") },
    Need { package: "liburing-dev", proof: Proof::File("/usr/include/liburing.h") },
    Need { package: "wrk", proof: Proof::Program("wrk") },
    Need { package: "nginx-light", proof: Proof::Program("nginx") },
    Need { package: "h2o", proof: Proof::Program("h2o") },
    Need { package: "curl", proof: Proof::Program("curl") },
    Need { package: "nghttp2-client", proof: Proof::Program("h2load") },
    Need { package: "openssl", proof: Proof::Program("openssl") },
    Need { package: "python3", proof: Proof::Program("python3") },
    Need { package: "lighttpd", proof: Proof::Program("lighttpd") },
    Need { package: "caddy", proof: Proof::Program("caddy") },
    Need {
        package: "libnginx-mod-http-lua",
        proof: Proof::File("/usr/lib/nginx/modules/ngx_http_lua_module.so"),
    },
];

/// A server of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Program {
    BareEpoll,
    BareUring,
    /// That of the system, as the other servers that are not current.
    Caddy,
    CurrentCaddy,
    CurrentH2o,
    CurrentHaproxy,
    CurrentLighttpd,
    CurrentNginx,
    /// 80s, with LuaJIT.
    Eighties,
    H2o,
    Kawipiko,
    Lighttpd,
    Nginx,
    PinionEpoll,
    PinionUring,
}

/// Servers of other projects that send files over HTTP/1.
pub(crate) const PEERS: &[Program] = &[
    Program::Nginx,
    Program::H2o,
    Program::Lighttpd,
    Program::Kawipiko,
    Program::CurrentNginx,
    Program::CurrentH2o,
    Program::CurrentLighttpd,
];

impl Program {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BareEpoll => "bare epoll",
            Self::BareUring => "bare io_uring",
            Self::Caddy => "caddy",
            Self::CurrentCaddy => "current caddy",
            Self::CurrentH2o => "current h2o",
            Self::CurrentHaproxy => "current haproxy",
            Self::CurrentLighttpd => "current lighttpd",
            Self::CurrentNginx => "current nginx",
            Self::Eighties => "80s",
            Self::H2o => "h2o",
            Self::Kawipiko => "kawipiko",
            Self::Lighttpd => "lighttpd",
            Self::Nginx => "nginx",
            Self::PinionEpoll => "pinion epoll",
            Self::PinionUring => "pinion io_uring",
        }
    }

    /// Returns the bare loop, whose cost is that of the kernel: each backend has its own.
    pub(crate) fn bare(self) -> Self {
        match self {
            Self::PinionUring | Self::BareUring => Self::BareUring,
            _ => Self::BareEpoll,
        }
    }

    /// Returns whether it responds to every request with the same bytes.
    pub(crate) fn is_bare(self) -> bool {
        matches!(self, Self::BareEpoll | Self::BareUring)
    }

    pub(crate) fn is_pinion(self) -> bool {
        matches!(self, Self::PinionEpoll | Self::PinionUring)
    }

    /// Returns the server whose current release this is, if it is one.
    pub(crate) fn peer(self) -> Option<Peer> {
        match self {
            Self::CurrentCaddy => Some(Peer::Caddy),
            Self::CurrentH2o => Some(Peer::H2o),
            Self::CurrentHaproxy => Some(Peer::Haproxy),
            Self::CurrentLighttpd => Some(Peer::Lighttpd),
            Self::CurrentNginx => Some(Peer::Nginx),
            _ => None,
        }
    }
}

/// A way to start a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Setup {
    pub(crate) program: Program,
    /// It is the earlier program of Pinion.
    pub(crate) is_before: bool,
    pub(crate) content: Content,
    /// The number of threads; only Pinion gets more than one.
    pub(crate) workers: u32,
    /// A bare loop ends each connection after one response.
    pub(crate) closes: bool,
    /// The key of its certificate; without TLS when there is none.
    pub(crate) key: Option<Key>,
    /// It listens for HTTP/3, too, on the same port.
    pub(crate) quic: bool,
}

/// The served content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    Small,
    /// The small site with many rules.
    Ruled,
    Many,
    /// The fixed response of Pinion (`--dummy`) with as much content as the small page has.
    Dummy,
    /// The same response without content.
    DummyEmpty,
    /// A handler in Lua.
    Script,
    /// A page of a template, and the same as a file.
    Pages,
}

/// Everything that is made before the first start.
pub(crate) struct Workshop {
    state: PathBuf,
    pinion: PathBuf,
    /// An earlier program of Pinion, which is compared with the present one.
    before: Option<PathBuf>,
    rounds: Option<usize>,
    small: PathBuf,
    many: OnceCell<Many>,
    /// The names of servers of other projects, with their versions.
    pub(super) labels: BTreeMap<Program, String>,
}

impl Workshop {
    /// Installs the missing packages, builds the release binary, the client of HTTP/3, the
    /// attackers and the bare loops, and makes the small site.
    pub(crate) fn set_up(before: Option<&Path>, rounds: Option<usize>) -> Result<Self> {
        debian_packages::install(NEEDS)?;
        let state = workspace_paths::target().join("bench");
        fs::create_dir_all(&state)?;
        let state = fs::canonicalize(state)?;
        // The packages are built one after the other: a dependency of several has the features of
        // one.
        for package in ["pinion", "pinion-h3load", "pinion-tests"] {
            process::run(&mut process::cargo(&[
                "build",
                "--profile",
                "dist",
                "-q",
                "-p",
                package,
            ]))?;
        }
        for (name, library) in [("epoll", None), ("uring", Some("-luring"))] {
            let source = workspace_paths::root().join(format!("bench/limits/{name}.c"));
            let mut compile = Command::new("gcc");
            compile.args(["-O3", "-march=native", "-o"]).arg(state.join(name)).arg(source);
            process::run(compile.args(library))?;
        }
        let small = served_content::small(&state)?;
        certificates::make(&state)?;
        let pinion = workspace_paths::target().join("dist/pinion");
        let before = before.map(fs::canonicalize).transpose()?;
        let many = OnceCell::new();
        let labels = BTreeMap::new();
        let mut shop = Self { state, pinion, before, rounds, small, many, labels };
        shop.archive(&shop.small, &[], "small.pinion")?;
        let rules = served_content::rules(&shop.state)?;
        shop.archive(&shop.small, &["--rules".as_ref(), rules.as_os_str()], "ruled.pinion")?;
        shop.kawipiko_archive()?;
        shop.labels = shop.find_labels();
        served_content::script(&shop.state)?;
        served_content::pages(&shop.state)?;
        Ok(shop)
    }

    /// Returns how many times servers take turns: `usual`, unless the command line sets another
    /// number.
    pub(crate) fn turns(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(usual)
    }

    /// Returns the 250 000 files, made and built when they are first needed.
    pub(crate) fn many(&self) -> Result<&Many> {
        if let Some(many) = self.many.get() {
            return Ok(many);
        }
        eprintln!("  making 250 000 files and their archive");
        let many = served_content::many(&self.state)?;
        self.archive(&many.root, &[], "many.pinion")?;
        Ok(self.many.get_or_init(|| many))
    }

    /// Starts a server; `None` if it is not installed.
    pub(crate) fn start(&self, setup: Setup) -> Result<Option<Server>> {
        let before = self.before.clone().filter(|_| setup.is_before);
        let Some(program) = before.or_else(|| self.find(setup.program)) else { return Ok(None) };
        let folder = self.state.join(setup.program.name().replace(' ', "-"));
        fs::create_dir_all(&folder)?;
        Server::start(&folder.join("log"), |port| self.command(setup, &program, port, &folder))
            .map(Some)
    }

    /// Returns the path of the program of Pinion.
    pub(crate) fn pinion(&self) -> &Path {
        &self.pinion
    }

    /// Returns the path of the client of HTTP/3.
    pub(crate) fn h3load(&self) -> PathBuf {
        self.pinion.with_file_name("pinion-h3load")
    }

    /// Returns the path of the client of HTTP/1.1 and RESP at a fixed rate.
    pub(crate) fn rateload(&self) -> PathBuf {
        self.pinion.with_file_name("pinion-rateload")
    }

    /// Returns the path of the program of the attackers.
    pub(crate) fn flood(&self) -> PathBuf {
        self.pinion.with_file_name("pinion-flood")
    }

    /// Returns the certificate of servers that have this key.
    pub(crate) fn pair(&self, key: Key) -> Pair {
        key.pair(&self.state)
    }

    /// Returns the path of a file below the folder of the bench.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    /// Returns the program of a server, if it is installed.
    pub(super) fn find(&self, program: Program) -> Option<PathBuf> {
        match program {
            Program::BareEpoll => Some(self.state.join("epoll")),
            Program::BareUring => Some(self.state.join("uring")),
            Program::PinionEpoll | Program::PinionUring => Some(self.pinion.clone()),
            Program::Caddy => process::find("caddy"),
            Program::Eighties => eighties().map(|folder| folder.join("bin/80s")),
            Program::H2o => process::find("h2o"),
            Program::Lighttpd => process::find("lighttpd"),
            Program::Nginx => process::find("nginx"),
            Program::Kawipiko => kawipiko("KAWIPIKO_SERVER", "kawipiko-server")
                .filter(|_| self.state.join("small.cdb").exists()),
            _ => program.peer()?.program(),
        }
    }

    fn command(&self, setup: Setup, program: &Path, port: u16, folder: &Path) -> Result<Command> {
        let mut command = measured_server::on_core(SERVER_CORE, program);
        let listen = format!("127.0.0.1:{port}");
        let pair = setup.key.map(|key| self.pair(key));
        let configuration = |name: &str| self.configuration(setup, name, port, folder);
        match setup.program {
            Program::BareEpoll | Program::BareUring => {
                command.arg(port.to_string()).args(setup.closes.then_some("close"));
            }
            Program::PinionEpoll | Program::PinionUring => {
                self.serve(setup, &listen, pair.as_ref(), &mut command);
            }
            Program::Caddy | Program::CurrentCaddy => {
                command.args(["run", "--adapter", "caddyfile", "--config"]);
                command.arg(configuration("caddy-h3.caddyfile")?);
            }
            Program::Eighties => {
                let folder = eighties().context("80s has a folder")?;
                command.current_dir(folder);
                command.args(["-c", "1", "-h", "127.0.0.1", "-p", &port.to_string()]);
                command.arg("server/simple_http.lua");
            }
            Program::Nginx | Program::CurrentNginx => {
                let name = match (&pair, setup.content) {
                    (Some(_), _) if setup.program == Program::CurrentNginx => "nginx-http3.conf",
                    (Some(_), _) => "nginx-tls.conf",
                    (None, Content::Script) => "nginx-lua.conf",
                    (None, _) => "nginx.conf",
                };
                command.arg("-c").arg(configuration(name)?);
            }
            Program::H2o | Program::CurrentH2o => {
                let name = match &pair {
                    Some(_) if setup.program == Program::CurrentH2o => "h2o-http3.conf",
                    Some(_) => "h2o-tls.conf",
                    None => "h2o.conf",
                };
                command.args(["-m", "worker", "-c"]).arg(configuration(name)?);
            }
            Program::Lighttpd | Program::CurrentLighttpd => {
                let name = if pair.is_some() { "lighttpd-tls.conf" } else { "lighttpd.conf" };
                command.args(["-D", "-f"]).arg(configuration(name)?);
            }
            Program::CurrentHaproxy => {
                command.args(["-db", "-f"]).arg(configuration("haproxy-http3.conf")?);
            }
            Program::Kawipiko => {
                command.args(["--bind", &listen, "--processes", "1", "--threads", "1"]);
                command.args(["--archive-inmem", "--index-all", "--archive"]);
                command.arg(self.state.join("small.cdb"));
            }
        }
        Ok(command)
    }

    /// Writes the configuration of a peer and returns its path.
    fn configuration(&self, setup: Setup, name: &str, port: u16, folder: &Path) -> Result<PathBuf> {
        let types = match setup.program {
            Program::CurrentNginx => peers::nginx_types(),
            _ => "/etc/nginx/mime.types".into(),
        };
        let mut values = vec![
            ("PORT", port.to_string()),
            ("ROOT", self.small.display().to_string()),
            ("STATE", folder.display().to_string()),
            ("TYPES", types.display().to_string()),
        ];
        if let Some(pair) = setup.key.map(|key| self.pair(key)) {
            values.push(("CERTIFICATE", pair.certificate.display().to_string()));
            values.push(("KEY", pair.key.display().to_string()));
        }
        measured_server::configuration(&measured_server::template(name), &values, folder)
    }

    /// Adds the arguments of Pinion.
    fn serve(&self, setup: Setup, listen: &str, pair: Option<&Pair>, command: &mut Command) {
        let io = if setup.program == Program::PinionEpoll { "epoll" } else { "uring" };
        command.arg("serve").args(["--io", io]);
        command.args(["--workers", &setup.workers.to_string()]);
        match setup.content {
            Content::Small => command.arg(self.state.join("small.pinion")),
            Content::Ruled => command.arg(self.state.join("ruled.pinion")),
            Content::Many => command.arg(self.state.join("many.pinion")),
            Content::Dummy => command.arg("--dummy"),
            Content::DummyEmpty => command.arg("--dummy-empty"),
            Content::Script => command.arg(self.state.join("hello.lua")),
            Content::Pages => command.arg(self.state.join("pages")),
        };
        match pair {
            None => command.args(["--listen", listen]),
            Some(pair) => {
                command.args(["--tls", listen, "--cert"]).arg(&pair.certificate);
                command.args(setup.quic.then_some(["--quic", listen]).iter().flatten());
                command.arg("--key").arg(&pair.key)
            }
        };
    }

    fn archive(&self, root: &Path, flags: &[&OsStr], name: &str) -> Result<()> {
        let mut build = Command::new(&self.pinion);
        build.arg("build").arg(root).args(flags).arg("-o").arg(self.state.join(name));
        process::output(&mut build)?;
        Ok(())
    }

    /// Makes kawipiko's archive of the small site, if its archiver is installed.
    fn kawipiko_archive(&self) -> Result<()> {
        let Some(archiver) = kawipiko("KAWIPIKO_ARCHIVER", "kawipiko-archiver") else {
            return Ok(());
        };
        let mut build = Command::new(archiver);
        build.args(["--compress", "identity", "--include-etag", "--sources"]).arg(&self.small);
        build.arg("--archive").arg(self.state.join("small.cdb"));
        process::output(&mut build).context("kawipiko's archiver")?;
        Ok(())
    }
}

/// Returns the folder of 80s, which is in no distribution and runs in the folder of its source: a
/// variable has the folder in which it was built, with `JIT=true ./80s.sh`.
fn eighties() -> Option<PathBuf> {
    std::env::var_os("EIGHTIES_FOLDER").map(PathBuf::from)
}

/// Returns the path of a program of kawipiko, which is in no distribution: a variable or the search
/// path has it.
fn kawipiko(variable: &str, program: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).or_else(|| process::find(program))
}
