//! Messages to the service manager that has started this server (sd_notify(3)): it is ready, it
//! reloads, it stops, it lives, and a line about its state. Each is one datagram to the socket in
//! `NOTIFY_SOCKET`. Without this variable nothing is sent.

use super::site_roster::Published;
use crate::failure::without_number;
use crate::terminal::counted;
use crate::warnings_and_notes;
use pinion_engine::server::Control;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// How long a message waits for a manager whose queue is full, before it is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// Microseconds of a second.
const MICROSECONDS_PER_SECOND: u64 = 1_000_000;

/// Nanoseconds of a microsecond.
const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;

/// Sends messages, from any thread. Copies share one socket.
#[derive(Clone, Default)]
pub(crate) struct Notifier(Option<Arc<Inner>>);

struct Inner {
    /// The value as it was given.
    shown: String,
    address: SocketAddr,
    socket: UnixDatagram,
    /// The numbers for the line about the server; not set before the server is ready.
    counts: OnceLock<Counts>,
    /// Locked while a message is sent, so that messages leave in the order of the events that they
    /// report.
    state: Mutex<State>,
}

struct Counts {
    /// `None` for the dummy.
    published: Option<Arc<Published>>,
    control: Control,
}

#[derive(Debug, Default)]
struct State {
    /// Reloads that have begun and not ended.
    reloads: usize,
    /// Whether a part of one of these has failed.
    failing: bool,
    /// Whether a part of the last one that has ended had failed.
    has_failed: bool,
    /// Whether the process that starts programs has ended.
    lacks_programs: bool,
    /// The line about a server that takes no new connections.
    draining: Option<String>,
    is_stopping: bool,
    /// Whether a message could not be sent, which is logged once.
    is_lost: bool,
}

impl Notifier {
    /// Returns a notifier for the socket that `NOTIFY_SOCKET` names: a path, or `@` and an abstract
    /// name. An address of another kind is logged, and nothing is sent to it.
    pub(crate) fn new(variable: Option<OsString>) -> Self {
        let Some(name) = variable.filter(|name| !name.is_empty()) else { return Self::default() };
        let shown = name.display().to_string();
        match connect(&name) {
            Ok((socket, address)) => Self(Some(Arc::new(Inner {
                shown,
                address,
                socket,
                counts: OnceLock::new(),
                state: Mutex::default(),
            }))),
            Err(error) => {
                let why = without_number(&error.to_string());
                warnings_and_notes::warning(format_args!(
                    "NOTIFY_SOCKET={shown}: {why}; the service manager is not notified"
                ));
                Self::default()
            }
        }
    }

    /// Returns whether there is a service manager that messages are sent to.
    pub(crate) fn has_manager(&self) -> bool {
        self.0.is_some()
    }

    /// Reports that clients are served: sites of `published`, on the connections of `control`.
    pub(crate) fn ready(&self, published: Option<Arc<Published>>, control: Control) {
        let Some(inner) = &self.0 else { return };
        let _set_once = inner.counts.set(Counts { published, control });
        let mut state = inner.lock();
        let status = inner.status(&state);
        inner.send_unless_stopping(&mut state, &format!("READY=1\nSTATUS={status}"));
    }

    /// Reports that a reload has begun. It has ended when the result is dropped.
    pub(crate) fn reloading(&self) -> ReloadNotice {
        if let Some(inner) = &self.0 {
            let mut state = inner.lock();
            state.reloads += 1;
            let now = monotonic_microseconds();
            inner.send_unless_stopping(
                &mut state,
                &format!("RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS=reloading"),
            );
        }
        ReloadNotice(self.0.clone())
    }

    /// Reports from now on that no program starts any more.
    pub(crate) fn programs_ended(&self) {
        let Some(inner) = &self.0 else { return };
        let mut state = inner.lock();
        state.lacks_programs = true;
        let status = inner.status(&state);
        inner.send_unless_stopping(&mut state, &format!("STATUS={status}"));
    }

    /// Reports that the server takes no new connections, in this line. A manager that knew it as
    /// the beginning of the end would set a time limit.
    pub(crate) fn draining(&self, line: &str) {
        let Some(inner) = &self.0 else { return };
        let mut state = inner.lock();
        state.draining = Some(line.to_owned());
        inner.send_unless_stopping(&mut state, &format!("STATUS={line}"));
    }

    /// Reports that the server stops, in this line.
    pub(crate) fn stopping(&self, line: &str) {
        let Some(inner) = &self.0 else { return };
        let mut state = inner.lock();
        state.is_stopping = true;
        inner.send(&mut state, &format!("STOPPING=1\nSTATUS={line}"));
    }

    /// Reports that the server lives, as `WatchdogSec=` asks for.
    pub(crate) fn alive(&self) {
        let Some(inner) = self.0.as_ref().filter(|inner| inner.is_ready()) else {
            // It is not ready yet, and no time limit holds.
            return;
        };
        let mut state = inner.lock();
        if state.is_stopping || state.reloads > 0 {
            // The line says so already.
            return inner.send(&mut state, "WATCHDOG=1");
        }
        let status = inner.status(&state);
        inner.send(&mut state, &format!("WATCHDOG=1\nSTATUS={status}"));
    }

    /// Reports why the server is not reported to live.
    pub(crate) fn silent(&self, status: &str) {
        let Some(inner) = &self.0 else { return };
        inner.send_unless_stopping(&mut inner.lock(), &format!("STATUS={status}"));
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ready(&self) -> bool {
        self.counts.get().is_some()
    }

    /// Returns the line about the server.
    fn status(&self, state: &State) -> String {
        if let Some(line) = &state.draining {
            return line.clone();
        }
        let Some(Counts { published, control }) = self.counts.get() else {
            return "starting".to_owned();
        };
        let sites = published.as_ref().map_or(0, |published| published.current().1.sites.len());
        let sites = (sites > 0).then(|| counted(sites as u64, "site"));
        let connections = counted(control.connections() as u64, "connection");
        let counts: Vec<String> = sites.into_iter().chain([connections]).collect();
        let failed = if state.has_failed { "; the last reload failed" } else { "" };
        let lacking = if state.lacks_programs {
            "; the process that starts programs has ended, restart the server"
        } else {
            ""
        };
        format!("serving {}{failed}{lacking}", counts.join(", "))
    }

    fn send_unless_stopping(&self, state: &mut State, message: &str) {
        if !state.is_stopping {
            self.send(state, message);
        }
    }

    fn send(&self, state: &mut State, message: &str) {
        match self.socket.send_to_addr(message.as_bytes(), &self.address) {
            Ok(_) => state.is_lost = false,
            Err(error) => {
                if !std::mem::replace(&mut state.is_lost, true) {
                    let why = without_number(&error.to_string());
                    warnings_and_notes::warning(format_args!(
                        "cannot notify the service manager at {}: {why}",
                        self.shown
                    ));
                }
            }
        }
    }
}

/// A reload that the service manager knows of.
pub(crate) struct ReloadNotice(Option<Arc<Inner>>);

impl ReloadNotice {
    /// Records for the report that a part has failed.
    pub(crate) fn fail(&self) {
        if let Some(inner) = &self.0 {
            inner.lock().failing = true;
        }
    }
}

impl Drop for ReloadNotice {
    /// Reports the end of the last reload: the server is ready again.
    fn drop(&mut self) {
        let Some(inner) = &self.0 else { return };
        let mut state = inner.lock();
        state.reloads -= 1;
        if state.reloads == 0 {
            state.has_failed = std::mem::take(&mut state.failing);
            let status = inner.status(&state);
            inner.send_unless_stopping(&mut state, &format!("READY=1\nSTATUS={status}"));
        }
    }
}

/// Returns a socket, and the address that a name in `NOTIFY_SOCKET` stands for.
fn connect(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => {
            let advice = "only paths and abstract sockets (@NAME) are supported";
            return Err(io::Error::other(advice));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok((socket, address))
}

/// Returns the time that a service manager compares with its own (`CLOCK_MONOTONIC`).
fn monotonic_microseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * MICROSECONDS_PER_SECOND
        + now.tv_nsec.unsigned_abs() / NANOSECONDS_PER_MICROSECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service manager with an abstract socket, and the notifier for it.
    fn manager(name: &str) -> (UnixDatagram, Notifier) {
        let name = format!("pinion-notifier-{}-{name}", std::process::id());
        let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("an address");
        let socket = UnixDatagram::bind_addr(&address).expect("bound");
        socket.set_nonblocking(true).expect("set");
        (socket, Notifier::new(Some(format!("@{name}").into())))
    }

    /// The messages that have come.
    fn messages(manager: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 1024];
        let receive = || {
            let bytes = manager.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..bytes].to_vec()).expect("text"))
        };
        std::iter::from_fn(receive).collect()
    }

    fn first_lines(manager: &UnixDatagram) -> Vec<String> {
        let first = |message: String| message.lines().next().unwrap_or_default().to_owned();
        messages(manager).into_iter().map(first).collect()
    }

    #[test]
    fn overlapping_reloads_end_once() {
        let (manager, notifier) = manager("overlapping");
        let first = notifier.reloading();
        let second = notifier.reloading();
        drop(first);
        assert_eq!(first_lines(&manager), ["RELOADING=1", "RELOADING=1"]);
        second.fail();
        drop(second);
        let ended = messages(&manager);
        assert_eq!(ended.len(), 1);
        assert!(ended[0].starts_with("READY=1\nSTATUS="), "{ended:?}");
    }

    /// Type=notify-reload of systemd compares the time with that of its signal (sd_notify(3)).
    #[test]
    fn a_reload_has_the_time_at_which_it_began() {
        let (manager, notifier) = manager("time");
        let before = monotonic_microseconds();
        let _reload = notifier.reloading();
        let after = monotonic_microseconds();
        let messages = messages(&manager);
        let time = messages[0].lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
        let time: u64 = time.expect("a time").parse().expect("a number");
        assert!((before..=after).contains(&time), "{before} {time} {after}");
    }

    #[test]
    fn a_server_that_stops_is_not_ready_again() {
        let (manager, notifier) = manager("stopping");
        let reload = notifier.reloading();
        notifier.draining("draining");
        notifier.stopping("stopping");
        drop(reload);
        drop(notifier.reloading());
        notifier.silent("a worker hangs");
        notifier.alive();
        assert_eq!(first_lines(&manager), ["RELOADING=1", "STATUS=draining", "STOPPING=1"]);
    }

    #[test]
    fn addresses_of_other_kinds_are_refused() {
        for name in ["vsock:2:1234", "relative/notify", "@", ""] {
            let notifier = Notifier::new(Some(name.into()));
            assert_eq!(notifier.0.is_some(), name == "@", "{name:?}");
        }
        assert!(Notifier::new(Some(format!("/{}", "x".repeat(108)).into())).0.is_none());
        assert!(Notifier::new(None).0.is_none());
    }
}
