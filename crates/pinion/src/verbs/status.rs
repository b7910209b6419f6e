//! `pinion status`: the sites that running servers serve, and their use of resources.

use crate::control::client;
use crate::control::protocol::{CommandRequest, ServerCommand};
use crate::control::status::{
    Certificate, Latency, ProgramState, PythonApplication, PythonProcess, PythonState, Requests,
    SiteStatus, State, Status, StoreUse, SupervisedProgram, Upstream, UpstreamState,
};
use crate::failure::Failure;
use crate::settings::ControlCommand;
use crate::terminal::{self, Align, Columns, TerminalStyle, count, counted, size};
use anyhow::anyhow;
use pinion_engine::stderr;
use serde::Serialize;
use std::io::{self, Write};

/// Certificates with fewer days left are marked: most are renewed a month before their end.
const DAYS_LEFT_MIN: i64 = 14;

/// Digits of a digest that are shown; `--json` has all.
const DIGEST_DIGITS: usize = 12;

/// The member names are part of the `--json` contract.
#[derive(Debug, Serialize)]
struct Servers {
    servers: Vec<FoundServer>,
}

/// A server with its socket.
#[derive(Debug, Serialize)]
struct FoundServer {
    socket: String,
    #[serde(flatten)]
    status: Status,
}

/// Asks every server, or that of a socket.
pub(super) fn run(control: &ControlCommand) -> Result<(), Failure> {
    let (mut servers, mut failed) = (Vec::new(), None);
    for mut server in client::servers(control.socket.as_deref())? {
        let socket = server.socket.display().to_string();
        let refused = |error: String| anyhow!("the server at {socket}: {error}");
        let status = server.ask(&CommandRequest::new(ServerCommand::Status)).and_then(|response| {
            let none = || response.error.unwrap_or_else(|| "gave no status".to_owned());
            response.status.ok_or_else(|| refused(none()))
        });
        match status {
            Ok(status) => servers.push(FoundServer { socket, status: *status }),
            Err(error) => failed = Some(error),
        }
    }
    // One that hangs must not hide the others.
    if let (true, Some(error)) = (servers.is_empty(), failed.take_if(|_| servers.is_empty())) {
        return Err(error.into());
    }
    let mut out = io::stdout().lock();
    if control.json {
        let document = serde_json::to_string(&Servers { servers }).map_err(io::Error::from)?;
        writeln!(out, "{document}")?;
    } else {
        let style = TerminalStyle::of_stdout();
        for (at, server) in servers.iter().enumerate() {
            if at > 0 {
                writeln!(out)?;
            }
            write_server(server, &mut out, style)?;
        }
    }
    match failed {
        None => Ok(()),
        Some(error) => {
            stderr::line(format_args!("pinion: {error:#}"));
            Err(Failure::AlreadyReported)
        }
    }
}

fn write_server(
    server: &FoundServer,
    out: &mut impl Write,
    style: TerminalStyle,
) -> io::Result<()> {
    let FoundServer { socket, status } = server;
    let state = match status.state {
        State::Serving => style.green("serving"),
        State::Draining => style.yellow("draining"),
        State::Stopping => style.yellow("stopping"),
    };
    let (version, pid) = (&status.version, status.pid);
    writeln!(
        out,
        "{}, {state} for {}",
        style.bold(format_args!("process {pid}: pinion {version}")),
        duration(status.uptime_seconds)
    )?;
    for (name, lines) in facts(socket, status, style) {
        for (at, line) in lines.iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            writeln!(out, "  {} {line}", style.dim(format_args!("{name:<13}")))?;
        }
    }
    write_sites(&status.sites, out, style)
}

/// Returns the lines of the status, by their names; more than one line where there are several
/// things.
fn facts(socket: &str, status: &Status, style: TerminalStyle) -> Vec<(&'static str, Vec<String>)> {
    let Status { workers, connections, memory, .. } = status;
    let workers = format!("{} on {}", counted(workers.count, "worker"), workers.io);
    let open = format!("{} open, at most {}", count(connections.open), count(connections.max));
    // Without sites there are no requests, except with the dummy.
    let is_store_only = status.sites.is_empty() && status.store.is_some();
    let bound = format!(
        "{}, at most {} beside {}",
        size(memory.resident_bytes),
        size(memory.bound_bytes),
        if is_store_only { "keys and values" } else { "the files of the sites" }
    );
    let requests = (!is_store_only).then(|| requests(&status.requests));
    let mut facts = vec![
        ("socket", vec![socket.to_owned()]),
        ("config", status.configuration.iter().cloned().collect()),
        (
            "last reload",
            status.last_reload_error.iter().map(|error| style.red(shown(error))).collect(),
        ),
        ("listening", status.listeners.clone()),
        ("threads", vec![workers]),
        ("connections", vec![open]),
        ("requests", requests.into_iter().collect()),
        ("latency", status.latency.iter().map(latency).collect()),
        ("memory", vec![bound]),
        ("store", status.store.iter().map(store_use).collect()),
    ];
    if let Some(programs) = &status.programs {
        let running: Vec<String> = programs
            .children
            .iter()
            .map(|child| format!("{} ({})", child.name, child.pid))
            .collect();
        let running =
            if running.is_empty() { "none running".to_owned() } else { running.join(", ") };
        let mut lines = Vec::new();
        if programs.spawner_pid.is_none() {
            let ended = "the process that starts programs has ended; restart the server";
            lines.push(style.red(ended));
        } else if programs.supervised.is_empty() {
            lines.push(running);
        }
        lines.extend(programs.supervised.iter().map(|program| supervised(program, style)));
        facts.push(("programs", lines));
    }
    facts.push(("python", status.python.iter().flat_map(|app| python(app, style)).collect()));
    let upstreams = status.sites.iter().flat_map(|site| &site.upstreams);
    facts.push(("upstreams", upstreams.map(|one| upstream(one, style)).collect()));
    let certificates = status.certificates.iter().map(|one| certificate(one, style));
    facts.push(("certificates", certificates.collect()));
    facts
}

/// Returns the content of the store in figures, and its policy when it is full.
fn store_use(store: &StoreUse) -> String {
    let StoreUse { memory_bytes, max_bytes, eviction } = store;
    let most = match max_bytes {
        0 => "no limit".to_owned(),
        bytes => format!("at most {}", size(*bytes)),
    };
    format!("{} of keys and values, {most}, {}", size(*memory_bytes), shown(eviction))
}

/// Returns whether a server is used that requests are forwarded to.
fn upstream(upstream: &Upstream, style: TerminalStyle) -> String {
    let Upstream { mount, url, state, requests } = upstream;
    let state = match state {
        UpstreamState::Up => style.green("up"),
        UpstreamState::Down => style.red("down: health checks fail"),
        UpstreamState::LeftOut => style.yellow("left out: requests have failed"),
    };
    format!("{} at {}, {state}, {}", shown(url), shown(mount), counted(*requests, "request"))
}

/// Returns the state of a Python application: a line about it, and one for each process.
fn python(app: &PythonApplication, style: TerminalStyle) -> Vec<String> {
    let PythonApplication { name, folder, waiting, memory, processes } = app;
    let mut line = format!("{} in {}, {memory}", shown(name), shown(folder));
    if *waiting > 0 {
        let waiting = format!(", {} waiting", counted(*waiting, "request"));
        line.push_str(&style.yellow(waiting));
    }
    let process = |process: &PythonProcess| {
        let PythonProcess { name, pid, state, requests, served, resident_bytes } = process;
        let pid = pid.map_or_else(String::new, |pid| format!(" ({pid})"));
        let state = match state {
            PythonState::Starting => style.yellow("starting"),
            PythonState::InUse => style.green("in use"),
            PythonState::Retired => style.yellow("finishes its requests"),
            PythonState::Stopping => style.yellow("stopping"),
        };
        let memory = resident_bytes.map_or_else(String::new, |bytes| format!(", {}", size(bytes)));
        format!(
            "  {}{pid} {state}, {} now, {} served{memory}",
            shown(name),
            counted(*requests, "request"),
            count(*served)
        )
    };
    [line].into_iter().chain(processes.iter().map(process)).collect()
}

/// Returns the state of a program that the server keeps running.
fn supervised(program: &SupervisedProgram, style: TerminalStyle) -> String {
    let SupervisedProgram { name, state, since, pid, restarts, restart_in_ms, last_end } = program;
    let pid = pid.map_or_else(String::new, |pid| format!(" ({pid})"));
    let description = match state {
        ProgramState::Running => format!("{} since {since}", style.green("running")),
        ProgramState::Starting => style.yellow("starting"),
        ProgramState::Stopping => style.yellow("stopping"),
        ProgramState::Stopped => style.red("stopped"),
        ProgramState::Waiting => {
            let seconds = restart_in_ms.unwrap_or(0) as f64 / 1e3;
            style.red(format_args!("starts again in {seconds:.1} s"))
        }
    };
    let mut line = format!("{}{pid} {description}", shown(name));
    if *restarts > 0 {
        line.push_str(&format!(", {}", counted(*restarts, "restart")));
    }
    if let Some(end) = last_end {
        line.push_str(&format!(", last end: {}", shown(end)));
    }
    line
}

fn requests(requests: &Requests) -> String {
    let Requests { total, status_2xx, status_3xx, status_4xx, status_5xx, content_bytes } =
        requests;
    let mut text = count(*total);
    let classes = [(2, status_2xx), (3, status_3xx), (4, status_4xx), (5, status_5xx)];
    let classes = classes.iter().filter(|(_, number)| **number > 0);
    let classes: Vec<String> =
        classes.map(|(class, number)| format!("{class}xx {}", count(**number))).collect();
    if !classes.is_empty() {
        text.push_str(&format!(" ({}), {} of content", classes.join(", "), size(*content_bytes)));
    }
    text
}

fn latency(latency: &Latency) -> String {
    let Latency { p50_micros, p90_micros, p99_micros, max_micros } = latency;
    let [p50, p90, p99, max] =
        [p50_micros, p90_micros, p99_micros, max_micros].map(|time| millis(*time));
    format!("p50 {p50}, p90 {p90}, p99 {p99}, longest {max}")
}

/// Returns a time with as many digits as say something.
fn millis(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..100_000 => format!("{:.1} ms", micros as f64 / 1e3),
        100_000..10_000_000 => format!("{:.0} ms", micros as f64 / 1e3),
        _ => format!("{:.0} s", micros as f64 / 1e6),
    }
}

fn certificate(certificate: &Certificate, style: TerminalStyle) -> String {
    let Certificate { names, days_left, not_after, .. } = certificate;
    let day = not_after.split('T').next().unwrap_or_default();
    let left = match days_left {
        ..0 => style.red("has expired"),
        0..DAYS_LEFT_MIN => {
            style.yellow(format_args!("{} left", counted(days_left.unsigned_abs(), "day")))
        }
        _ => format!("{} left", counted(days_left.unsigned_abs(), "day")),
    };
    format!("{} until {day}, {left}", shown(&names.join(", ")))
}

fn write_sites(sites: &[SiteStatus], out: &mut impl Write, style: TerminalStyle) -> io::Result<()> {
    const ALIGNS: [Align; 6] =
        [Align::Left, Align::Left, Align::Left, Align::Right, Align::Right, Align::Left];
    if sites.is_empty() {
        return Ok(());
    }
    let heads = ["  site", "source", "digest", "paths", "generation", ""];
    let mut rows = vec![heads.map(|head| style.dim(head))];
    rows.extend(sites.iter().map(|site| cells(site, sites.len() == 1)));
    for line in Columns::new(ALIGNS).lines(&rows) {
        writeln!(out, "{}", line.trim_end())?;
    }
    for site in sites {
        if let Some(error) = &site.error {
            let source = &site.source;
            writeln!(
                out,
                "  {}",
                style.red(format_args!("{source} could not be reloaded: {}", shown(error)))
            )?;
        }
    }
    Ok(())
}

fn cells(site: &SiteStatus, is_alone: bool) -> [String; 6] {
    let hosts = match (site.hosts.first(), site.hosts.len()) {
        (None, _) if is_alone => "every host".to_owned(),
        (None, _) => "other hosts".to_owned(),
        (Some(first), 1) => first.clone(),
        (Some(first), more) => format!("{first} and {} more", more - 1),
    };
    [
        format!("  {hosts}"),
        site.source.clone(),
        site.digest.chars().take(DIGEST_DIGITS).collect(),
        count(site.paths),
        count(site.generation),
        if site.live { "live".to_owned() } else { String::new() },
    ]
}

/// Returns the first line of a text of a server, which cannot command the terminal.
fn shown(text: &str) -> String {
    terminal::shown(text.lines().next().unwrap_or_default().as_bytes())
}

/// Returns a duration in its two largest units.
fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min 0 s"),
            (3599, "59 min 59 s"),
            (3600, "1 h 0 min"),
            (90_061, "1 d 1 h"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
        for (micros, expected) in
            [(7, "7 µs"), (1500, "1.5 ms"), (123_456, "123 ms"), (12_345_678, "12 s")]
        {
            assert_eq!(millis(micros), expected);
        }
    }
}
