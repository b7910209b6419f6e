//! The thread that reloads changed certificates: the ones whose files have changed, and all of them
//! on SIGHUP. A file that cannot be used only causes a line on stderr.
//!
//! Files are looked at every two seconds. Notices of the kernel would have to be asked for at every
//! link and folder on the way, and there are two small files where a site has thousands.

use super::{Tls, report_certificate};
use crate::certificate_files::BadFile;
use crate::control::protocol::Message;
use crate::self_signed;
use crate::server::path_state::{Look, look};
use crate::server::reload_report::Reports;
use crate::server::site_reload::report_failure;
use crate::settings::{CanonicalHost, CertificateFiles, SelfSignedKey};
use crate::timestamp_format;
use pinion_engine::tls::certificate::Certificate;
use pinion_engine::tls::certificate_resolver::CertificateStore;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The interval at which files are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// The interval at which a certificate that we made is looked at.
const OWN_LOOK: Duration = Duration::from_secs(86_400);

/// A handle to the thread, usable from any other thread. The thread ends when the last handle is
/// dropped.
#[derive(Clone)]
pub(crate) struct Keeper {
    wishes: Sender<(Wish, Reports)>,
    served: Arc<ServedCertificates>,
}

/// The certificates that are served, with the files that they came from.
#[derive(Debug, Default)]
pub(crate) struct ServedCertificates(Mutex<Vec<(CertificateFiles, Certificate)>>);

impl ServedCertificates {
    /// Returns all of them.
    pub(crate) fn all(&self) -> Vec<(CertificateFiles, Certificate)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, all: &[(CertificateFiles, Certificate)]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all.to_vec();
    }
}

/// A request to the thread.
pub(crate) enum Wish {
    /// Read all files again.
    Reload,
    /// These are the files from now on.
    Files(Vec<CertificateFiles>),
    /// No files are named any more.
    NoFiles,
}

impl Keeper {
    /// Starts the thread with the certificates that were read.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(tls: Tls) -> io::Result<Self> {
        let (wishes, asked) = channel();
        let mut kept = KeeperState::new(tls);
        let served = Arc::clone(&kept.served);
        thread::Builder::new().name("certificates".to_owned()).spawn(move || kept.run(&asked))?;
        Ok(Self { wishes, served })
    }

    /// Asks for a reload. The reports get its messages.
    pub(crate) fn ask(&self, wish: Wish, reports: Reports) {
        if let Err(SendError((_, reports))) = self.wishes.send((wish, reports)) {
            reports.log(&Message::error("reloading certificates has ended"));
        }
    }

    /// Returns the certificates that are served, now and later.
    pub(crate) fn served(&self) -> Arc<ServedCertificates> {
        Arc::clone(&self.served)
    }
}

/// The state of the thread.
struct KeeperState {
    loaded: Vec<(CertificateFiles, Certificate)>,
    /// The states of the files before they were read.
    looks: Vec<[Look; 2]>,
    own: Option<(SelfSignedKey, Option<PathBuf>)>,
    own_look: Instant,
    /// Whether the last load of each failed.
    failed: Vec<bool>,
    store: Arc<CertificateStore>,
    served: Arc<ServedCertificates>,
    /// The host that redirects lead to until the next start.
    leads_to: Option<CanonicalHost>,
    /// Whether a certificate names that host.
    names_host: bool,
}

impl KeeperState {
    fn new(tls: Tls) -> Self {
        let Tls { loaded, looks, own, store, leads_to, .. } = tls;
        let own_look = Instant::now();
        let failed = vec![false; loaded.len()];
        let (names_host, served) = (false, Arc::new(ServedCertificates::default()));
        served.set(&loaded);
        let mut kept =
            Self { loaded, looks, own, own_look, failed, store, served, leads_to, names_host };
        kept.names_host = kept.is_host_named();
        kept
    }

    fn run(&mut self, asked: &Receiver<(Wish, Reports)>) {
        loop {
            let (wish, reports) = match asked.recv_timeout(LOOK) {
                Ok((wish, reports)) => (Some(wish), reports),
                Err(RecvTimeoutError::Timeout) => (None, Reports::default()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // A mistake of ours with one file must not be the end of all later ones.
            let done = catch_unwind(AssertUnwindSafe(|| self.turn(wish, &reports)));
            if done.is_err() {
                reports.log(&Message::error("reloading certificates panicked"));
            }
        }
    }

    fn turn(&mut self, wish: Option<Wish>, reports: &Reports) {
        match wish {
            Some(Wish::Reload) => {
                self.renew_own(reports);
                self.take_up(|_| true, reports);
            }
            Some(Wish::Files(files)) => self.arrange(files, reports),
            Some(Wish::NoFiles) => {
                if self.own.is_none() {
                    reports.log(&Message::warning(
                        "no certificate is configured any more, keeping the previous ones; a \
                         restart is needed for a self-signed one",
                    ));
                }
                self.renew_own(reports);
                self.take_up(|_| true, reports);
            }
            None => self.follow(reports),
        }
    }

    /// Reloads changed files, once they have come to rest: certificate and key are two files, and
    /// each may be written in pieces.
    fn follow(&mut self, reports: &Reports) {
        if self.own_look.elapsed() >= OWN_LOOK {
            self.renew_own(reports);
        }
        let now = looks(&self.loaded);
        if now == self.looks {
            return;
        }
        thread::sleep(LOOK / 4);
        let later = looks(&self.loaded);
        let changed: Vec<bool> = now
            .iter()
            .zip(&later)
            .zip(&self.looks)
            .map(|((now, later), seen)| now == later && now != seen)
            .collect();
        if changed.contains(&true) {
            self.take_up(|at| changed.get(at) == Some(&true), reports);
        }
    }

    /// Makes our own certificate anew, if it ends soon. It is reloaded as any changed one is.
    fn renew_own(&mut self, reports: &Reports) {
        self.own_look = Instant::now();
        if let Some((key, state)) = &self.own
            && let Err(failure) = self_signed::files(*key, state.as_deref())
        {
            report_failure(failure, reports);
        }
    }

    /// Reads the requested certificates. Each that can be used replaces its earlier version, and is
    /// reported when new connections have it.
    fn take_up(&mut self, is_asked: impl Fn(usize) -> bool, reports: &Reports) {
        let mut taken = Vec::new();
        for (at, (files, certificate)) in self.loaded.iter_mut().enumerate() {
            if !is_asked(at) {
                continue;
            }
            // The state is read before the file: a file that changes meanwhile is read again.
            let seen = look_at(files);
            if let Some(known) = self.looks.get_mut(at) {
                *known = seen;
            }
            let result = files.load();
            let failed_before = self
                .failed
                .get_mut(at)
                .is_some_and(|failed| std::mem::replace(failed, result.is_err()));
            match result {
                Ok(next) if next.is_same(certificate) => {
                    if failed_before {
                        reports.log(&restored(files, certificate));
                    }
                }
                Ok(next) => {
                    *certificate = next;
                    taken.push(at);
                }
                Err(bad) => reports.log(&kept_previous(files, &bad)),
            }
        }
        if taken.is_empty() {
            return;
        }
        self.publish();
        for (files, certificate) in taken.iter().filter_map(|at| self.loaded.get(*at)) {
            report_certificate(files, certificate, self.own.is_some(), reports);
            reports.log(&taken_up(files, certificate));
        }
        self.warn_of_unnamed_host(reports);
    }

    /// Makes these the files: all of them can be used, or nothing changes.
    fn arrange(&mut self, files: Vec<CertificateFiles>, reports: &Reports) {
        if files.iter().eq(self.loaded.iter().map(|(files, _)| files)) {
            return self.take_up(|_| true, reports);
        }
        let (mut loaded, mut looks) = (Vec::new(), Vec::new());
        for files in files {
            looks.push(look_at(&files));
            match files.load() {
                Ok(certificate) => loaded.push((files, certificate)),
                Err(bad) => return reports.log(&kept_previous(&files, &bad)),
            }
        }
        self.failed = vec![false; loaded.len()];
        (self.loaded, self.looks, self.own) = (loaded, looks, None);
        self.publish();
        for (files, certificate) in &self.loaded {
            report_certificate(files, certificate, false, reports);
            reports.log(&taken_up(files, certificate));
        }
        self.warn_of_unnamed_host(reports);
    }

    fn publish(&mut self) {
        let certificates: Vec<Certificate> =
            self.loaded.iter().map(|(_, certificate)| certificate.clone()).collect();
        self.store.replace(&certificates);
        self.served.set(&self.loaded);
    }

    /// Warns when no certificate names the host any more that redirects lead to.
    fn warn_of_unnamed_host(&mut self, reports: &Reports) {
        let names_host = self.is_host_named();
        let was_named = std::mem::replace(&mut self.names_host, names_host);
        if let Some(CanonicalHost { host, .. }) = &self.leads_to
            && was_named
            && !names_host
        {
            reports.log(&Message::warning(format!(
                "redirects lead to {host}, which no certificate names any more: restart, or set \
                 --canonical-host"
            )));
        }
    }

    /// Returns whether a client that follows a redirect finds a certificate for its host.
    fn is_host_named(&self) -> bool {
        self.leads_to.as_ref().is_some_and(|CanonicalHost { host, .. }| {
            self.loaded.iter().any(|(_, certificate)| certificate.names_host(host))
        })
    }
}

fn taken_up(files: &CertificateFiles, certificate: &Certificate) -> Message {
    let until = timestamp_format::rfc3339(certificate.not_after());
    let file = files.cert.display();
    Message::info(format!("reloaded certificate {file}: valid until {until}"))
}

/// Returns the message that the files of a certificate can be read again, and hold the served one.
fn restored(files: &CertificateFiles, certificate: &Certificate) -> Message {
    let until = timestamp_format::rfc3339(certificate.not_after());
    let file = files.cert.display();
    Message::info(format!(
        "certificate {file} can be loaded again and is unchanged: valid until {until}"
    ))
}

fn kept_previous(files: &CertificateFiles, why: &BadFile) -> Message {
    let file = files.cert.display();
    Message::error(format!("cannot reload certificate {file}, keeping the previous one: {why}"))
}

fn looks(loaded: &[(CertificateFiles, Certificate)]) -> Vec<[Look; 2]> {
    loaded.iter().map(|(files, _)| look_at(files)).collect()
}

pub(super) fn look_at(files: &CertificateFiles) -> [Look; 2] {
    [look(&files.cert), look(&files.key)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::{self, ParsedCommand};
    use crate::settings::{Serve, Settings};
    use pinion_engine::tls::tickets::Tickets;
    use std::fs;
    use std::path::Path;

    /// Puts another certificate into the file, all at once.
    fn renew(file: &Path) {
        let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a pair");
        let next = file.with_extension("next");
        let text = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
        fs::write(&next, text).expect("written");
        fs::rename(next, file).expect("renamed");
    }

    fn serving(file: &Path) -> Serve {
        let line = format!("pinion serve site --tls 443 --cert {}", file.display());
        let asked = command_line::parse(line.split(' ').map(Into::into)).expect("flags");
        let ParsedCommand::Run(low) = asked else { panic!("{line}") };
        match Settings::from_low(&low).expect("settings") {
            Settings::Serve(serve) => *serve,
            other => panic!("{other:?}"),
        }
    }

    /// The sites are built between these two steps.
    #[test]
    fn files_changed_before_the_thread_starts_are_reloaded() {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("pinion-keeper-{id}"));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("a.pem");
        renew(&file);
        let tickets = Arc::new(Tickets::new(Vec::new()).expect("random bytes"));
        let tls = Tls::open(&serving(&file), &tickets).expect("a certificate");
        renew(&file);
        let mut kept = KeeperState::new(tls);
        let (files, first) = kept.loaded[0].clone();
        kept.follow(&Reports::default());
        let now = files.load().expect("a certificate").fingerprint();
        fs::remove_dir_all(&folder).expect("removed");
        assert_ne!(first.fingerprint(), now);
        assert_eq!(kept.loaded[0].1.fingerprint(), now);
    }
}
