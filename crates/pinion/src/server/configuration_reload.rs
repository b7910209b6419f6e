//! The thread that reads the configuration file again, on SIGHUP. It applies all settings that can
//! change while the server runs; for the others one line says that they need a restart. A file with
//! a fault changes nothing.

use super::reload_report::Reports;
use super::running_programs::RunningPrograms;
use super::site_reload::report_failure;
use super::sites::Sites;
use super::tls::{Keeper, Wish};
use crate::control::protocol::Message;
use crate::directives::{self, Directive, DirectiveLevel, TakesEffect};
use crate::failure::Failure;
use crate::plan::{ConfigFile, ServerPlan};
use crate::raw_settings::Low;
use crate::settings::{Certificates, Listen, Serve};
use anyhow::anyhow;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The server's own settings that can change while it runs.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    grace_seconds: AtomicU64,
}

impl LiveSettings {
    /// Returns the settings as they are at start.
    pub(crate) fn new(serve: &Serve) -> Self {
        Self { grace_seconds: AtomicU64::new(serve.grace.as_secs()) }
    }

    /// Returns the time that running requests may take after SIGTERM.
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_seconds.load(Ordering::Relaxed))
    }

    fn take_up(&self, serve: &Serve) {
        self.grace_seconds.store(serve.grace.as_secs(), Ordering::Relaxed);
    }
}

/// Requests a reload of everything, from any thread.
pub(crate) enum Renewal {
    /// There is no file: the only site, if there is one, loads again, and its Python application
    /// starts anew.
    Site(Sites, RunningPrograms),
    /// The file is read again, and every site of it loads again.
    File(ConfigFileReload),
}

/// Asks for the file to be read again.
pub(crate) struct ConfigFileReload {
    asked: SyncSender<()>,
    /// The reports of the reload that was asked for and has not begun.
    pending: Arc<Mutex<Reports>>,
}

impl Renewal {
    /// Starts the reloads of a server whose settings are those of a configuration file, or of flags
    /// alone.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(
        (sites, programs): (Sites, RunningPrograms),
        config: Option<ConfigFile>,
        started: Started,
        live: Arc<LiveSettings>,
        certificates: Option<Keeper>,
    ) -> io::Result<Self> {
        let Some(config) = config else { return Ok(Self::Site(sites, programs)) };
        // The channel holds one request: a reload that has not begun serves every later request
        // too.
        let (asked, wishes) = sync_channel(1);
        let pending = Arc::new(Mutex::new(Reports::default()));
        let waiting = Arc::clone(&pending);
        let mut renewer = Renewer { sites, programs, config, started, live, certificates };
        let run = move || renewer.run(&wishes, &waiting);
        thread::Builder::new().name("configuration".to_owned()).spawn(run)?;
        Ok(Self::File(ConfigFileReload { asked, pending }))
    }

    /// Returns whether a reload loads anything.
    pub(crate) fn loads_anything(&self) -> bool {
        match self {
            Self::Site(sites, _) => !sites.is_empty(),
            Self::File(_) => true,
        }
    }

    /// Asks for a reload. The reports get its messages.
    pub(crate) fn ask(&self, reports: Reports) {
        match self {
            Self::Site(sites, programs) => {
                sites.reload(&reports);
                programs.restart_applications(reports);
            }
            Self::File(file) => file.ask(reports),
        }
    }
}

impl ConfigFileReload {
    fn ask(&self, reports: Reports) {
        lock(&self.pending).add(reports);
        match self.asked.try_send(()) {
            Ok(()) | Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => {
                take(&self.pending).log(&Message::error("reloading has ended"));
            }
        }
    }
}

fn lock(pending: &Mutex<Reports>) -> MutexGuard<'_, Reports> {
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(pending: &Mutex<Reports>) -> Reports {
    std::mem::take(&mut *lock(pending))
}

/// The settings that the server was started with: settings that need a restart keep these values.
pub(crate) struct Started {
    /// Everything, as written.
    pub(crate) low: Low,
    /// Its listeners.
    pub(crate) listen: Vec<Listen>,
}

/// The state of the thread.
struct Renewer {
    sites: Sites,
    programs: RunningPrograms,
    config: ConfigFile,
    started: Started,
    live: Arc<LiveSettings>,
    /// `None` without TLS.
    certificates: Option<Keeper>,
}

impl Renewer {
    fn run(&mut self, wishes: &Receiver<()>, pending: &Mutex<Reports>) {
        while wishes.recv().is_ok() {
            let reports = take(pending);
            // A mistake of ours in one file must not be the end of all later ones.
            let taken = catch_unwind(AssertUnwindSafe(|| self.take_up(&reports)));
            let taken = taken.unwrap_or_else(|_| Err(anyhow!("loading panicked").into()));
            if let Err(failure) = taken {
                let config_path = self.config.path.display();
                reports.log(&Message::error(format!(
                    "cannot reload {config_path}, keeping the previous version"
                )));
                report_failure(failure, &reports);
            }
        }
    }

    fn take_up(&mut self, reports: &Reports) -> Result<(), Failure> {
        let plan = self.config.plan()?;
        plan.check_privileges()?;
        let ServerPlan { serve, sites, programs, program_file_faults, .. } = plan;
        let (served, path) = (&mut self.sites, &self.config.path);
        let arrange = |sites| served.arrange(sites, path, reports);
        self.programs.change(sites, programs, arrange, reports)?;
        for fault in program_file_faults {
            reports.log(&Message::warning(fault.to_string()));
        }
        self.live.take_up(&serve);
        if let Some(certificates) = &self.certificates {
            let wish = match &serve.tls.certificates {
                Certificates::Files(files) => Wish::Files(files.clone()),
                // Without encrypted listeners it is these that need a start.
                Certificates::SelfSigned { .. } if !serve.encrypts() => Wish::Reload,
                Certificates::SelfSigned { .. } => Wish::NoFiles,
            };
            certificates.ask(wish, reports.clone());
        }
        let waiting = self.started.waiting(&serve.low, &serve.listen);
        if !waiting.is_empty() {
            reports.log(&Message::warning(format!(
                "{}: a restart is needed for {}",
                self.config.path.display(),
                waiting.join(", ")
            )));
        }
        Ok(())
    }
}

impl Started {
    /// Returns the keys whose values have changed and need a restart.
    fn waiting(&self, low: &Low, listen: &[Listen]) -> Vec<String> {
        let needs_start = |row: &&Directive| {
            row.change == TakesEffect::Restart
                && matches!(row.level, DirectiveLevel::Listener | DirectiveLevel::Server)
        };
        let mut names: Vec<&str> = self.low.differences(low).collect();
        names.extend(moved(&self.listen, listen));
        names.extend(without_twin(&self.listen, listen).chain(without_twin(listen, &self.listen)));
        names.sort_unstable();
        names.dedup();
        let row = |name| directives::all().find(|row| row.name == name).filter(needs_start);
        let rows = names.into_iter().filter_map(row);
        rows.map(|row| match row.file {
            Some(key) => format!("{} {}", key.table.header(), key.name),
            None => format!("--{}", row.name),
        })
        .collect()
    }
}

/// Returns the settings whose values differ at the same address. All values together may be the
/// same as before: a value can move from one listener to another.
fn moved<'l>(started: &'l [Listen], now: &'l [Listen]) -> impl Iterator<Item = &'static str> + 'l {
    let same = |one: &Listen, two: &Listen| one.kind == two.kind && one.address == two.address;
    let pairs =
        started.iter().filter_map(move |one| Some((one, now.iter().find(|two| same(one, two))?)));
    pairs.flat_map(|(one, two)| {
        let client_ca = (one.client_ca != two.client_ca).then_some("client-ca");
        let congestion = (one.congestion != two.congestion).then_some("quic-congestion");
        let protocols = (one.protocols != two.protocols).then_some("protocols");
        let proxies = (one.proxy_protocol != two.proxy_protocol).then_some("proxy-protocol");
        [client_ca, congestion, protocols, proxies].into_iter().flatten()
    })
}

/// Returns the rows of listeners that the others lack. The default listener of a server with sites
/// is not written anywhere.
fn without_twin<'l>(
    listen: &'l [Listen],
    others: &'l [Listen],
) -> impl Iterator<Item = &'static str> + 'l {
    let has_twin = |one: &Listen| {
        others.iter().any(|other| one.kind == other.kind && one.address == other.address)
    };
    listen.iter().filter(move |one| !has_twin(one)).map(|one| one.kind.row())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::verbs::Verb;
    use crate::listen_address::Address;
    use crate::settings::{ListenKind, Spoken};
    use pinion_engine::quic::congestion::CongestionControl;

    #[test]
    fn settings_that_need_a_restart_are_named_by_their_keys() {
        let low = |texts: &[(&'static str, &str)]| {
            let mut low = Low::new(Verb::Serve);
            texts.iter().for_each(|(name, value)| low.set(name, vec![value.into()]));
            low
        };
        let started = low(&[("workers", "2"), ("grace", "30"), ("io", "epoll")]);
        let now = low(&[("workers", "3"), ("grace", "5"), ("listen", "80"), ("io", "epoll")]);
        let started = Started { low: started, listen: Vec::new() };
        assert_eq!(started.waiting(&now, &[]), ["[[listen]] address", "[server] workers"]);
        assert!(started.waiting(&started.low, &[]).is_empty());
    }

    #[test]
    fn changed_listener_settings_are_named() {
        let tls = |port, client_ca: Option<&str>, protocols| Listen {
            address: Address::Any { port },
            kind: ListenKind::Tls,
            protocols,
            client_ca: client_ca.map(Into::into),
            congestion: CongestionControl::Cubic,
            proxy_protocol: Vec::new(),
            position: None,
        };
        let (all, one) = (Spoken::ALL, Spoken { http3: false, ..Spoken::ALL });
        let listen = vec![tls(1, Some("ca"), all), tls(2, None, one)];
        let started = Started { low: Low::new(Verb::Serve), listen };
        let waiting = |now: &[Listen]| started.waiting(&started.low, now);
        let other_order = [tls(2, None, one), tls(1, Some("ca"), all)];
        assert!(waiting(&other_order).is_empty());
        let ca = [tls(1, None, all), tls(2, Some("ca"), one)];
        assert_eq!(waiting(&ca), ["[[listen]] client-ca"]);
        let both = [tls(1, None, one), tls(2, Some("ca"), all)];
        assert_eq!(waiting(&both), ["[[listen]] client-ca", "[[listen]] protocols"]);
        let congestion = CongestionControl::Bbr;
        let bbr = [Listen { congestion, ..tls(1, Some("ca"), all) }, tls(2, None, one)];
        assert_eq!(waiting(&bbr), ["[[listen]] quic-congestion"]);
        // A further listener comes before the others.
        let more = [tls(0, None, all), tls(1, None, all), tls(2, None, one)];
        assert_eq!(waiting(&more), ["[[listen]] client-ca", "[[listen]] tls"]);
        // A listener with another address has no counterpart to compare with.
        assert_eq!(waiting(&[tls(3, None, one), tls(2, None, one)]), ["[[listen]] tls"]);
        // A server with sites has a listener that is not written in its file.
        let unwritten = [tls(1, Some("ca"), all), tls(2, None, one), Listen::UNCONFIGURED];
        assert_eq!(waiting(&unwritten), ["[[listen]] address"]);
    }
}
