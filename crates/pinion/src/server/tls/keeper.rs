//! The thread that takes up changed certificates: those whose files are other ones than before, and
//! all of them on SIGHUP. What cannot be used changes nothing but a line on stderr.
//!
//! Files are looked at every two seconds. Notices of the kernel would have to be asked for at every
//! link and folder on the way, and there are two small files where a site has thousands.

use super::{Tls, tell};
use crate::calendar;
use crate::certificate_files::BadFile;
use crate::log_lines;
use crate::self_signed;
use crate::server::look::{Look, look};
use crate::settings::{CanonicalHost, CertificateFiles, SelfSignedKey};
use pinion_engine::stderr;
use pinion_engine::tls::certificates::Certificate;
use pinion_engine::tls::resolver::CertificateStore;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often files are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// How often a certificate that we made is looked at.
const OWN_LOOK: Duration = Duration::from_secs(86_400);

/// Asks the thread, from any other one. It ends when nobody is left who could ask.
#[derive(Clone)]
pub(crate) struct Keeper {
    wishes: Sender<Wish>,
}

/// What is asked for.
pub(crate) enum Wish {
    /// Read all files again.
    Reload,
    /// These are the files from now on.
    Files(Vec<CertificateFiles>),
    /// No files are named any more.
    NoFiles,
}

impl Keeper {
    /// Starts it with what was read.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(tls: Tls) -> io::Result<Self> {
        let (wishes, asked) = channel();
        let mut kept = Kept::new(tls);
        thread::Builder::new().name("certificates".to_owned()).spawn(move || kept.run(&asked))?;
        Ok(Self { wishes })
    }

    /// Asks.
    pub(crate) fn ask(&self, wish: Wish) {
        if self.wishes.send(wish).is_err() {
            stderr::line(format_args!("pinion: reloading certificates has ended"));
        }
    }
}

/// What the thread has.
struct Kept {
    loaded: Vec<(CertificateFiles, Certificate)>,
    /// What the files were before they were read.
    looks: Vec<[Look; 2]>,
    own: Option<(SelfSignedKey, Option<PathBuf>)>,
    own_look: Instant,
    /// Whether the last load of each failed.
    failed: Vec<bool>,
    store: Arc<CertificateStore>,
    /// Where redirects lead until the next start.
    leads_to: Option<CanonicalHost>,
    /// Whether a certificate names that host.
    names_host: bool,
}

impl Kept {
    fn new(tls: Tls) -> Self {
        let Tls { loaded, looks, own, store, leads_to, .. } = tls;
        let own_look = Instant::now();
        let failed = vec![false; loaded.len()];
        let names_host = false;
        let mut kept = Self { loaded, looks, own, own_look, failed, store, leads_to, names_host };
        kept.names_host = kept.is_host_named();
        kept
    }

    fn run(&mut self, asked: &Receiver<Wish>) {
        loop {
            let wish = match asked.recv_timeout(LOOK) {
                Ok(wish) => Some(wish),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // A mistake of ours with one file must not be the end of all later ones.
            let done = catch_unwind(AssertUnwindSafe(|| match wish {
                Some(Wish::Reload) => {
                    self.renew_own();
                    self.take_up(|_| true);
                }
                Some(Wish::Files(files)) => self.arrange(files),
                Some(Wish::NoFiles) => {
                    if self.own.is_none() {
                        log_lines::warning(
                            "no certificate is configured any more, keeping the previous ones; a \
                             restart is needed for a self-signed one",
                        );
                    }
                    self.renew_own();
                    self.take_up(|_| true);
                }
                None => self.follow(),
            }));
            if done.is_err() {
                stderr::line(format_args!("pinion: reloading certificates panicked"));
            }
        }
    }

    /// Takes up what has changed, once it has come to rest: certificate and key are two files, and
    /// each may be written in pieces.
    fn follow(&mut self) {
        if self.own_look.elapsed() >= OWN_LOOK {
            self.renew_own();
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
            self.take_up(|at| changed.get(at) == Some(&true));
        }
    }

    /// Makes the certificate anew that is ours, if its end is near. It is taken up as any changed
    /// one is.
    fn renew_own(&mut self) {
        self.own_look = Instant::now();
        if let Some((key, state)) = &self.own
            && let Err(failure) = self_signed::files(*key, state.as_deref())
        {
            failure.report();
        }
    }

    /// Reads those that are asked for. Each that can be used takes the place of what was there, and
    /// is told when new connections have it.
    fn take_up(&mut self, is_asked: impl Fn(usize) -> bool) {
        let mut taken = Vec::new();
        for (at, (files, certificate)) in self.loaded.iter_mut().enumerate() {
            if !is_asked(at) {
                continue;
            }
            // Looked at before it is read: what changes meanwhile is read again.
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
                        log_restored(files, certificate);
                    }
                }
                Ok(next) => {
                    *certificate = next;
                    taken.push(at);
                }
                Err(bad) => tell_kept(files, &bad),
            }
        }
        if taken.is_empty() {
            return;
        }
        self.publish();
        for (files, certificate) in taken.iter().filter_map(|at| self.loaded.get(*at)) {
            tell(files, certificate, self.own.is_some());
            tell_taken(files, certificate);
        }
        self.tell_unnamed_host();
    }

    /// Makes these the files: all of them can be used, or nothing changes.
    fn arrange(&mut self, files: Vec<CertificateFiles>) {
        if files.iter().eq(self.loaded.iter().map(|(files, _)| files)) {
            return self.take_up(|_| true);
        }
        let (mut loaded, mut looks) = (Vec::new(), Vec::new());
        for files in files {
            looks.push(look_at(&files));
            match files.load() {
                Ok(certificate) => loaded.push((files, certificate)),
                Err(bad) => return tell_kept(&files, &bad),
            }
        }
        self.failed = vec![false; loaded.len()];
        (self.loaded, self.looks, self.own) = (loaded, looks, None);
        self.publish();
        for (files, certificate) in &self.loaded {
            tell(files, certificate, false);
            tell_taken(files, certificate);
        }
        self.tell_unnamed_host();
    }

    fn publish(&mut self) {
        let certificates: Vec<Certificate> =
            self.loaded.iter().map(|(_, certificate)| certificate.clone()).collect();
        self.store.replace(&certificates);
    }

    /// Tells when no certificate names the host any more that redirects lead to.
    fn tell_unnamed_host(&mut self) {
        let names_host = self.is_host_named();
        let was_named = std::mem::replace(&mut self.names_host, names_host);
        if let Some(CanonicalHost { host, .. }) = &self.leads_to
            && was_named
            && !names_host
        {
            log_lines::warning(format_args!(
                "redirects lead to {host}, which no certificate names any more: restart, or set \
                 --canonical-host"
            ));
        }
    }

    /// Whether whoever follows a redirect finds a certificate for its host.
    fn is_host_named(&self) -> bool {
        self.leads_to.as_ref().is_some_and(|CanonicalHost { host, .. }| {
            self.loaded.iter().any(|(_, certificate)| certificate.names_host(host))
        })
    }
}

fn tell_taken(files: &CertificateFiles, certificate: &Certificate) {
    let until = calendar::rfc3339(certificate.not_after());
    stderr::line(format_args!(
        "reloaded certificate {}: valid until {until}",
        files.cert.display()
    ));
}

/// Logs that the files of a certificate can be read again, and hold what is served.
fn log_restored(files: &CertificateFiles, certificate: &Certificate) {
    let until = calendar::rfc3339(certificate.not_after());
    stderr::line(format_args!(
        "certificate {} can be loaded again and is unchanged: valid until {until}",
        files.cert.display()
    ));
}

fn tell_kept(files: &CertificateFiles, why: &BadFile) {
    let file = files.cert.display();
    stderr::line(format_args!(
        "pinion: cannot reload certificate {file}, keeping the previous one: {why}"
    ));
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
    use crate::command_line::{self, Asked};
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
        let Asked::Run(low) = asked else { panic!("{line}") };
        match Settings::from_low(&low).expect("settings") {
            Settings::Serve(serve) => *serve,
            other => panic!("{other:?}"),
        }
    }

    /// Between the two sites are built.
    #[test]
    fn what_changes_after_it_was_read_and_before_the_thread_starts_is_taken_up() {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("pinion-keeper-{id}"));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("a.pem");
        renew(&file);
        let tickets = Arc::new(Tickets::new(Vec::new()).expect("random bytes"));
        let tls = Tls::open(&serving(&file), &tickets).expect("a certificate");
        renew(&file);
        let mut kept = Kept::new(tls);
        let (files, first) = kept.loaded[0].clone();
        kept.follow();
        let now = files.load().expect("a certificate").fingerprint();
        fs::remove_dir_all(&folder).expect("removed");
        assert_ne!(first.fingerprint(), now);
        assert_eq!(kept.loaded[0].1.fingerprint(), now);
    }
}
