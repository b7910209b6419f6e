//! The thread that reads the configuration file again, on SIGHUP. What can change while the server
//! runs changes; of the rest one line says that it needs a start. A file that is wrong changes
//! nothing.

use super::sites::Sites;
use super::tls::{Keeper as CertificateKeeper, Wish};
use crate::directives::{self, Change, Directive, Level};
use crate::failure::Failure;
use crate::plan::{ConfigFile, Plan};
use crate::settings::{Certificates, Serve};
use crate::written::Low;
use anyhow::anyhow;
use pinion_engine::stderr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// What of the server's own settings changes while it runs.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    grace_seconds: AtomicU64,
}

impl LiveSettings {
    /// As they are at start.
    pub(crate) fn new(serve: &Serve) -> Self {
        Self { grace_seconds: AtomicU64::new(serve.grace.as_secs()) }
    }

    /// How long running requests may take after SIGTERM.
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_seconds.load(Ordering::Relaxed))
    }

    fn take_up(&self, serve: &Serve) {
        self.grace_seconds.store(serve.grace.as_secs(), Ordering::Relaxed);
    }
}

/// Asks for everything to be taken up anew, from any thread.
pub(crate) enum Renewal {
    /// There is no file: the only site loads again.
    Site(Sites),
    /// The file is read again, and every site of it loads again.
    File(SyncSender<()>),
}

impl Renewal {
    /// Of a server whose settings are those of a configuration file, or of flags alone.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(
        sites: Sites,
        config: Option<ConfigFile>,
        low: Low,
        live: Arc<LiveSettings>,
        certificates: Option<CertificateKeeper>,
    ) -> io::Result<Self> {
        let Some(config) = config else { return Ok(Self::Site(sites)) };
        // Room for one: what was asked for and has not begun answers every later wish too.
        let (asked, wishes) = sync_channel(1);
        let mut keeper = Keeper { sites, config, started: low, live, certificates };
        let run = move || keeper.run(&wishes);
        thread::Builder::new().name("configuration".to_owned()).spawn(run)?;
        Ok(Self::File(asked))
    }

    /// Asks.
    pub(crate) fn ask(&self) {
        match self {
            Self::Site(sites) => sites.reload(),
            Self::File(asked) => match asked.try_send(()) {
                Ok(()) | Err(TrySendError::Full(())) => {}
                Err(TrySendError::Disconnected(())) => {
                    stderr::line(format_args!("pinion: reloading has ended"));
                }
            },
        }
    }
}

/// What the thread has.
struct Keeper {
    sites: Sites,
    config: ConfigFile,
    /// What the server was started with: of what needs a start, this holds.
    started: Low,
    live: Arc<LiveSettings>,
    /// None without TLS.
    certificates: Option<CertificateKeeper>,
}

impl Keeper {
    fn run(&mut self, wishes: &Receiver<()>) {
        while wishes.recv().is_ok() {
            // A mistake of ours in one file must not be the end of all later ones.
            let taken = catch_unwind(AssertUnwindSafe(|| self.take_up()));
            let taken = taken.unwrap_or_else(|_| Err(anyhow!("loading panicked").into()));
            if let Err(failure) = taken {
                let what = self.config.path.display();
                stderr::line(format_args!("pinion: cannot take up {what}, what was there stays"));
                failure.report();
            }
        }
    }

    fn take_up(&mut self) -> Result<(), Failure> {
        let Plan { serve, sites, .. } = self.config.plan()?;
        self.sites.arrange(sites)?;
        self.live.take_up(&serve);
        if let Some(certificates) = &self.certificates {
            certificates.ask(match &serve.tls.certificates {
                Certificates::Files(files) => Wish::Files(files.clone()),
                Certificates::SelfSigned { .. } => Wish::Reload,
            });
        }
        let waiting = waiting(&self.started, &serve.low);
        if !waiting.is_empty() {
            stderr::line(format_args!(
                "pinion: {}: a restart is needed for {}",
                self.config.path.display(),
                waiting.join(", ")
            ));
        }
        Ok(())
    }
}

/// The keys whose values are other ones than at start, and need a start.
fn waiting(started: &Low, now: &Low) -> Vec<String> {
    let needs_start = |row: &&Directive| {
        row.change == Change::Restart && matches!(row.level, Level::Listener | Level::Server)
    };
    let rows = started
        .differences(now)
        .filter_map(|name| directives::all().find(|row| row.name == name).filter(needs_start));
    rows.map(|row| match row.file {
        Some(key) => format!("{} {}", key.table.header(), key.name),
        None => format!("--{}", row.name),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::verbs::Verb;

    #[test]
    fn what_needs_a_start_is_named_by_its_key() {
        let low = |texts: &[(&'static str, &str)]| {
            let mut low = Low::new(Verb::Serve);
            texts.iter().for_each(|(name, value)| low.set(name, vec![value.into()]));
            low
        };
        let started = low(&[("workers", "2"), ("grace", "30"), ("io", "epoll")]);
        let now = low(&[("workers", "3"), ("grace", "5"), ("listen", "80"), ("io", "epoll")]);
        assert_eq!(waiting(&started, &now), ["[[listen]] address", "[server] workers"]);
        assert!(waiting(&started, &started).is_empty());
    }
}
