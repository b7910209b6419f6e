//! The sockets and settings that a service manager such as systemd has passed to this process.

use super::passed_sockets::PassedSockets;
use super::sd_notify::Notifier;
use super::watchdog;
use crate::failure::Failure;
use anyhow::Context as _;
use pinion_engine::server::Control;
use pinion_engine::service_manager::take_variables;
use std::time::Duration;

/// The service manager, as this process sees it; without one, nothing.
pub(crate) struct ServiceManager {
    /// The sockets that it has passed.
    pub(crate) sockets: PassedSockets,
    /// Sends messages to it.
    pub(crate) notifier: Notifier,
    /// The time after which it restarts a server that has not said that it lives.
    pub(crate) watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Takes the passed values out of the environment, so that children do not inherit them. Call
    /// it before the first thread, and before anything else opens a file.
    pub(crate) fn take() -> Self {
        let [notify_socket, watchdog_usec, watchdog_pid] =
            take_variables(["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]);
        let [pid, count, names, _] =
            take_variables(["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"]);
        Self {
            sockets: PassedSockets::take([pid, count, names]),
            notifier: Notifier::new(notify_socket),
            watchdog: watchdog::limit(watchdog_usec, watchdog_pid),
        }
    }

    /// Starts the thread that says that the server lives, if the manager asks for it.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start_watchdog(&self, control: Control) -> Result<(), Failure> {
        let Some(limit) = self.watchdog.filter(|_| self.notifier.has_manager()) else {
            return Ok(());
        };
        let started = watchdog::start(limit, control, self.notifier.clone());
        Ok(started.context("cannot start the thread for the watchdog")?)
    }
}
