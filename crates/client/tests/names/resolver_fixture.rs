//! A resolver with files of its own, and the parts of its answers that tests check.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

use crate::dns_server::DnsServer;
use pinion_client::connect_target::HostName;
use pinion_client::happy_eyeballs::AddressFamily;
use pinion_client::resolver::{ResolveError, Resolved, Resolver, ResolverSettings};

/// Files of one test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pinion-client-names-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a new folder");
        Self(folder)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        // The file is replaced as a whole, as system tools do.
        fs::write(self.0.join("new"), text).expect("a file");
        fs::rename(self.0.join("new"), &path).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A resolver with its files.
pub(crate) struct Fixture {
    pub(crate) resolver: Resolver,
    pub(crate) folder: Folder,
}

impl Fixture {
    pub(crate) fn new(servers: &[SocketAddr], resolv_conf: &str, hosts: &str) -> Self {
        Self::with(servers, resolv_conf, hosts, |_| {})
    }

    pub(crate) fn with(
        servers: &[SocketAddr],
        resolv_conf: &str,
        hosts: &str,
        change: impl FnOnce(&mut ResolverSettings),
    ) -> Self {
        let folder = Folder::new();
        let mut settings = ResolverSettings {
            resolv_conf: folder.write("resolv.conf", resolv_conf),
            hosts: folder.write("hosts", hosts),
            name_servers: servers.to_vec(),
            ..ResolverSettings::default()
        };
        change(&mut settings);
        Self { resolver: Resolver::new(settings), folder }
    }

    pub(crate) fn of(server: &DnsServer) -> Self {
        Self::new(&[server.address], "", "")
    }

    pub(crate) fn begin(
        &self,
        name: &str,
    ) -> Receiver<(AddressFamily, Result<Resolved, ResolveError>)> {
        let (sender, receiver) = channel();
        let callback = move |family, result| sender.send((family, result)).expect("a receiver");
        self.resolver.resolve(&HostName::parse(name).expect(name), Box::new(callback));
        receiver
    }

    /// Waits for both families.
    pub(crate) fn resolve(&self, name: &str) -> Answers {
        wait(&self.begin(name))
    }
}

pub(crate) type Answers = BTreeMap<AddressFamily, Result<Resolved, ResolveError>>;

/// Waits until the callback is dropped. Each family is reported exactly once.
pub(crate) fn wait(
    receiver: &Receiver<(AddressFamily, Result<Resolved, ResolveError>)>,
) -> Answers {
    let mut answers = Answers::new();
    while let Ok((family, result)) = receiver.recv() {
        assert!(answers.insert(family, result).is_none(), "{family} twice");
    }
    assert_eq!(answers.len(), 2, "{answers:?}");
    answers
}

pub(crate) fn addresses(answers: &Answers, family: AddressFamily) -> Vec<String> {
    let resolved = answers[&family].as_ref().expect("addresses");
    resolved.addresses.iter().map(ToString::to_string).collect()
}

pub(crate) fn message(answers: &Answers, family: AddressFamily) -> String {
    answers[&family].as_ref().expect_err("no addresses").to_string()
}

pub(crate) fn no_such_name(name: &str) -> String {
    format!("the name {name} does not exist")
}
