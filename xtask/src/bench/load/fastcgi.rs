//! The cost of a request to a script of PHP-FPM in the server in front of it, compared with nginx:
//! with a connection for each request, and with connections that are kept.
//!
//! PHP-FPM runs on the core of the load, so that the server has the other core to itself.

use super::compared_servers::{Program, Workshop};
use super::load_generators::Measured;
use super::measured_server::{self, CLIENT_CORE, SERVER_CORE, Server};
use super::proxy::{self, Round};
use crate::bench::figure_table::{self, Figure};
use crate::process;
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The name of the part.
pub(crate) const NAME: &str = "fastcgi";

const ROUNDS: usize = 7;
const SECONDS: u32 = 2;
const CONNECTIONS: u32 = 32;
/// Processes of PHP-FPM: more than all servers together keep connections.
const PROCESSES: u32 = 16;
/// Connections that a server keeps.
const KEPT: u32 = 4;
/// The CPU time of a request over that of nginx.
const GOAL_OF_NGINX: f64 = 1.0;

const PROGRAMS: [Program; 3] = [Program::PinionEpoll, Program::PinionUring, Program::Nginx];

/// A way to reach PHP-FPM.
type Case = (Program, bool);

/// Measures, and returns the report and the data.
pub(crate) fn run(shop: &Workshop) -> Result<(String, Value)> {
    let turns = shop.turns(ROUNDS);
    let rounds = requested(shop)?;
    let (mut figures, mut data) = (Vec::new(), Map::new());
    for (case, rounds) in &rounds {
        let cpu = proxy::spread(rounds.iter().map(|round| round.cpu_us))?;
        let p99 = proxy::spread(rounds.iter().map(|round| round.measured.p99 as f64))?;
        let name = name(*case);
        figures.push(Figure::spread(format!("{name}: CPU, µs"), &cpu));
        figures.push(Figure::spread(format!("{name}: 99th percentile, µs"), &p99));
        let round = |round: &Round| json!({"cpu_us": round.cpu_us, "p99": round.measured.p99});
        data.insert(name, rounds.iter().map(round).collect());
    }
    for (program, is_kept) in rounds.keys().filter(|(program, _)| program.is_pinion()) {
        let pairs = rounds[&(*program, *is_kept)].iter().zip(&rounds[&(Program::Nginx, *is_kept)]);
        let over = proxy::spread(pairs.map(|(own, nginx)| own.cpu_us / nginx.cpu_us))?;
        let name = format!("{}: CPU over nginx", name((*program, *is_kept)));
        figures.push(Figure::spread(name, &over).at_most(GOAL_OF_NGINX));
    }
    let report = format!(
        "Requests over {CONNECTIONS} connections for a script of 5 bytes that PHP-FPM runs in \
         {PROCESSES} processes, {turns} rounds of {SECONDS} s in turn. CPU time is that of the \
         server before PHP-FPM alone. \"Kept\" keeps up to {KEPT} connections to it.\n\n{}",
        figure_table::table(&figures)
    );
    Ok((report, data.into()))
}

fn name((program, is_kept): Case) -> String {
    format!("{}{}", program.name(), if is_kept { ", kept" } else { "" })
}

/// Loads each server in turn.
fn requested(shop: &Workshop) -> Result<BTreeMap<Case, Vec<Round>>> {
    let turns = shop.turns(ROUNDS);
    let state = shop.file("fastcgi");
    fs::create_dir_all(state.join("site"))?;
    fs::write(state.join("site/hello.php"), "<?php echo 'hello';\n")?;
    let _php = PhpFpm::start(&state)?;
    let mut servers = Vec::new();
    for program in PROGRAMS {
        for is_kept in [false, true] {
            servers.push(((program, is_kept), server(shop, (program, is_kept), &state)?));
        }
    }
    let mut rounds = BTreeMap::<Case, Vec<Round>>::new();
    for round in 0..=turns {
        for (case, server) in &servers {
            let before = server.cpu()?;
            let measured: Measured =
                proxy::load(server.address(), "/hello.php", CONNECTIONS, SECONDS)?;
            let cpu_us = server.cpu()?.since(&before) as f64 / 1e3 / measured.requests as f64;
            ensure!(measured.errors + measured.refusals == 0, "{}: {measured:?}", name(*case));
            eprintln!("  {NAME} {} {round}/{turns}: {cpu_us:.2} µs", name(*case));
            // The first one warms up.
            if round > 0 {
                rounds.entry(*case).or_default().push(Round { cpu_us, measured });
            }
        }
    }
    Ok(rounds)
}

/// PHP-FPM; it ends when this is dropped.
struct PhpFpm(Child);

impl PhpFpm {
    /// Starts it with a socket in the folder.
    fn start(state: &Path) -> Result<Self> {
        let socket = state.join("php.sock");
        let configuration = state.join("php-fpm.conf");
        let text = format!(
            "[global]\nerror_log = {0}/php-fpm.log\ndaemonize = no\n[www]\nuser = www-data\n\
             group = www-data\nlisten = {0}/php.sock\nlisten.mode = 0666\npm = static\n\
             pm.max_children = {PROCESSES}\n",
            state.display()
        );
        fs::write(&configuration, text)?;
        let fpm = find_php_fpm().context("php-fpm; on Debian: apt-get install php-fpm")?;
        let mut command = measured_server::on_core(CLIENT_CORE, fpm);
        command.arg("-F").arg("-y").arg(&configuration);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let fpm = Self(command.spawn()?);
        let began = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            ensure!(began.elapsed() < Duration::from_secs(20), "php-fpm does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(fpm)
    }
}

impl Drop for PhpFpm {
    /// Its processes end with it only if it gets the request to end.
    fn drop(&mut self) {
        let _asked = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ended = self.0.wait();
    }
}

fn find_php_fpm() -> Option<PathBuf> {
    let names = ["php-fpm8.4", "php-fpm8.3", "php-fpm8.2", "php-fpm"];
    names.iter().find_map(|name| process::find(name))
}

/// Starts a server on its core.
fn server(shop: &Workshop, case: Case, state: &Path) -> Result<Server> {
    let (program, is_kept) = case;
    let folder = state.join(name(case).replace([' ', ','], "-"));
    fs::create_dir_all(&folder)?;
    Server::start(&folder.join("log"), |port| {
        let io = match program {
            Program::Nginx => {
                let keepalive = if is_kept { format!("keepalive {KEPT};") } else { String::new() };
                let values = [
                    ("PORT", port.to_string()),
                    ("STATE", folder.display().to_string()),
                    ("SOCKET", state.join("php.sock").display().to_string()),
                    ("ROOT", state.join("site").display().to_string()),
                    ("KEEPALIVE", keepalive),
                    ("KEEP", if is_kept { "on" } else { "off" }.to_owned()),
                ];
                let template = measured_server::template("nginx-fastcgi.conf");
                let file = measured_server::configuration(&template, &values, &folder)?;
                let nginx = process::find("nginx").context("nginx")?;
                let mut command = measured_server::on_core(SERVER_CORE, nginx);
                command.arg("-e").arg(folder.join("nginx.error")).arg("-p").arg(&folder);
                command.arg("-c").arg(file);
                return Ok(command);
            }
            Program::PinionUring => "uring",
            _ => "epoll",
        };
        let (site, kept) = (state.join("site"), if is_kept { KEPT } else { 0 });
        let text = format!(
            "[server]\ncontrol = \"off\"\nworkers = 1\nio = \"{io}\"\n[[listen]]\naddress = \
             \"127.0.0.1:{port}\"\n[[site]]\npath = \"{0}\"\n[[site.mount]]\nroot = \"{0}\"\n\
             fastcgi = \"unix:{1}/php.sock\"\nkeep-connections = {kept}\n",
            site.display(),
            state.display()
        );
        let file = folder.join("pinion.toml");
        fs::write(&file, text)?;
        let mut command = measured_server::on_core(SERVER_CORE, shop.pinion());
        command.arg("serve").arg(file);
        Ok(command)
    })
}
