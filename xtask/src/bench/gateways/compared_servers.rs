//! The servers of the comparison, and the programs that they run or connect to.
//!
//! All of them run as the user of the scripts, which is not root. Files are therefore in the folder
//! for temporary files, which every user can reach.

use crate::bench::load::measured_server::{self, SERVER_CORE, Server};
use crate::{process, workspace_paths};
use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time that a program may need until it listens.
const START: Duration = Duration::from_secs(20);

/// The interpreter of the system, which every user may run.
pub(super) const INTERPRETER: &str = "/usr/bin/python3";

/// Whom everything runs as if the bench is started as root.
const USER: &str = "www-data";

/// The files of the bench.
pub(super) struct Place {
    state: PathBuf,
    is_root: bool,
}

/// The settings of Pinion for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scripts {
    /// Scripts run as the user of the server, at most this many at the same time.
    AtMost(u32),
    /// Scripts run as the user of the server, on the core of servers.
    OnCore,
    /// Scripts run as another user on the core of servers, which requires root.
    OnCoreAsOther,
}

impl Place {
    /// Makes the site and compiles the script and the bare loop.
    pub(super) fn make(pinion: &Path) -> Result<Self> {
        let state = std::env::temp_dir().join("pinion-bench-gateways");
        for folder in ["site", "scripts", "nginx"] {
            fs::create_dir_all(state.join(folder))?;
        }
        fs::copy(pinion, state.join("pinion"))?;
        let is_root = process::output(Command::new("id").arg("-u"))?.trim() == "0";
        if is_root {
            process::run(Command::new("chown").args(["-R", USER]).arg(&state))?;
        }
        fs::write(state.join("site/hello.txt"), "hello world!\n")?;
        let application = workspace_paths::root().join("bench/load/python_hello.py");
        fs::copy(application, state.join("python_hello.py")).context("the application")?;
        for (source, program, flags) in [
            ("bench/load/hello.c", "scripts/hello", &["-static"][..]),
            ("bench/limits/spawn.c", "spawn", &[]),
        ] {
            let mut compile = Command::new("gcc");
            compile.args(["-O3", "-o"]).arg(state.join(program));
            compile.args(flags).arg(workspace_paths::root().join(source));
            process::run(&mut compile)?;
        }
        let script = state.join("scripts/hello");
        fs::set_permissions(script, fs::Permissions::from_mode(0o755))?;
        Ok(Self { state, is_root })
    }

    /// Returns the path of a file of the bench.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    /// Returns whether scripts can run as another user than the server.
    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    /// Returns a command that runs a program as the user of the bench.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        if !self.is_root {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).arg(program);
        command
    }

    /// Adds to a command of setpriv(1) as which user it runs a program.
    pub(super) fn add_user(&self, setpriv: &mut Command) {
        if self.is_root {
            setpriv.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        }
    }

    /// Returns a command as `command` does, on one core.
    pub(super) fn command_on_core(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.command("taskset");
        command.args(["-c", &SERVER_CORE.to_string()]).arg(program);
        command
    }

    /// Returns the keys of a server with one worker and a site, for the mounts of Python
    /// applications.
    pub(super) fn python_site(&self, port: &str) -> String {
        format!(
            "[server]\ncontrol = \"off\"\nworkers = 1\n[[listen]]\n\
             address = \"127.0.0.1:{port}\"\n[[site]]\npath = {:?}\n",
            self.file("site")
        )
    }

    /// Returns the keys of a mount of a Python application that runs in this many processes.
    pub(super) fn python_mount(&self, path: &str, application: &str, processes: u32) -> String {
        self.python_mount_with(path, application, processes, Path::new(INTERPRETER))
    }

    /// Returns a mount as `python_mount` does, with an interpreter.
    pub(super) fn python_mount_with(
        &self,
        path: &str,
        application: &str,
        processes: u32,
        python: &Path,
    ) -> String {
        format!(
            "[[site.mount]]\npath = \"{path}\"\n{application}\npython = {python:?}\n\
             python-folder = {:?}\npython-processes = {processes}\n",
            self.state
        )
    }

    /// Makes a virtual environment with the packages in the folder `packages`, and returns its
    /// interpreter.
    pub(super) fn virtual_environment(&self, name: &str, packages: &Path) -> Result<PathBuf> {
        let folder = self.file(name);
        let mut make = Command::new(INTERPRETER);
        process::run(make.args(["-m", "venv", "--clear", "--without-pip"]).arg(&folder))?;
        let python = folder.join("bin/python3");
        let place = "import sysconfig; print(sysconfig.get_path('purelib'), end='')";
        let place = process::output(Command::new(&python).args(["-c", place]))?;
        fs::write(Path::new(&place).join("peers.pth"), packages.display().to_string())?;
        Ok(python)
    }

    /// Returns the command that starts Pinion on the core of servers with this configuration.
    pub(super) fn pinion_on_core(&self, name: &str, configuration: &str) -> Result<Command> {
        let file = self.file(name);
        fs::write(&file, configuration)?;
        let mut command = measured_server::on_core(SERVER_CORE, "setpriv");
        self.add_user(&mut command);
        command.arg(self.file("pinion")).arg("serve").arg(file);
        Ok(command)
    }

    /// Starts the application with FastCGI.
    pub(super) fn application(&self) -> Result<Listening> {
        let socket = self.file("app.sock");
        // The environment of the tests may be where only its owner can read.
        let mut python = Command::new(workspace_paths::target().join("python/bin/python"));
        python.arg(workspace_paths::root().join("bench/load/flup_hello.py")).arg(&socket);
        Listening::start(python, &socket)
    }

    /// Starts fcgiwrap with this many processes, each of which runs one script at a time.
    pub(super) fn fcgiwrap(&self, processes: u32) -> Result<Listening> {
        let socket = self.file("wrap.sock");
        let mut wrap = self.command(process::find("fcgiwrap").context("fcgiwrap")?);
        wrap.args(["-c", &processes.to_string(), "-s"]).arg(format!("unix:{}", socket.display()));
        Listening::start(wrap, &socket)
    }

    /// Starts nginx in front of both, with this many processes.
    pub(super) fn nginx(&self, processes: u32) -> Result<Server> {
        let folder = self.file("nginx");
        Server::start(&self.file("nginx.log"), |port| {
            let shown = |name: &str| self.file(name).display().to_string();
            let values = [
                ("PORT", port.to_string()),
                ("WORKERS", processes.to_string()),
                ("STATE", folder.display().to_string()),
                ("ROOT", shown("site")),
                ("SCRIPTS", shown("scripts")),
                ("WRAP", shown("wrap.sock")),
                ("APP", shown("app.sock")),
            ];
            let template = measured_server::template("nginx-gateways.conf");
            let file = measured_server::configuration(&template, &values, &folder)?;
            let mut nginx = self.command(process::find("nginx").context("nginx")?);
            nginx.arg("-e").arg(folder.join("nginx.error")).arg("-p").arg(&folder);
            nginx.arg("-c").arg(file);
            Ok(nginx)
        })
    }

    /// Starts Pinion in front of the scripts and, unless it is bound to a core, of the application.
    pub(super) fn pinion(&self, workers: u32, scripts: Scripts) -> Result<Server> {
        Server::start(&self.file("pinion.log"), |port| {
            let mut mounts =
                format!("path = \"/cgi-bin\"\ncgi = \"{}\"\n", self.file("scripts").display());
            match scripts {
                Scripts::AtMost(scripts) => {
                    mounts += &format!(
                        "cgi-max = {scripts}\n[[site.mount]]\npath = \"/app\"\n\
                         fastcgi = \"unix:{}\"\n{}",
                        self.file("app.sock").display(),
                        self.python_mount("/wsgi", "wsgi = \"python_hello:app\"", scripts)
                    );
                }
                Scripts::OnCore => {}
                Scripts::OnCoreAsOther => {
                    mounts += &format!("cgi-user = \"{USER}\"\ncgi-no-chroot = true\n");
                }
            }
            let text = format!(
                "[server]\ncontrol = \"off\"\nworkers = {workers}\n[[listen]]\n\
                 address = \"127.0.0.1:{port}\"\n[[site]]\npath = \"{}\"\n[[site.mount]]\n\
                 {mounts}",
                self.file("site").display(),
            );
            let (file, pinion) = (self.file("pinion.toml"), self.file("pinion"));
            fs::write(&file, text)?;
            let mut command = match scripts {
                Scripts::AtMost(_) => self.command(pinion),
                Scripts::OnCore => self.command_on_core(pinion),
                Scripts::OnCoreAsOther => measured_server::on_core(SERVER_CORE, pinion),
            };
            command.arg("serve").arg(file);
            Ok(command)
        })
    }
}

/// A program that listens at a Unix socket; it ends when this is dropped.
pub(super) struct Listening(Child);

impl Listening {
    fn start(mut command: Command, socket: &Path) -> Result<Self> {
        // The socket may be left from an aborted run.
        let _ = fs::remove_file(socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.process_group(0);
        let started = Self(command.spawn().with_context(|| process::shown(&command))?);
        let began = Instant::now();
        while UnixStream::connect(socket).is_err() {
            ensure!(began.elapsed() < START, "{} does not listen", process::shown(&command));
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(started)
    }
}

impl Drop for Listening {
    /// Its processes do not end with it, and get the request to end as well.
    fn drop(&mut self) {
        let _asked = Command::new("kill").args(["--", &format!("-{}", self.0.id())]).status();
        let _ended = self.0.wait();
    }
}
