//! resolv.conf (resolv.conf(5)) and the hosts file, read when they are first needed and again when
//! they have changed.

use std::fs::{self, File};
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use resolv_conf::ScopedIp;

use super::ResolverSettings;
use super::hosts_file::HostsFile;
use super::lookup::{DnsClient, DnsOptions};
use crate::connect_target::HostName;
use crate::limits::{CONFIG_FILE_MAX_BYTES, NAME_SERVERS_MAX, SEARCH_DOMAINS_MAX};

/// The port of name servers (RFC 1035 §4.2.1).
const DNS_PORT: u16 = 53;
/// The longest timeout of resolv.conf: `RES_MAXRETRANS` of the C library.
const TIMEOUT_MAX_SECONDS: u32 = 30;
/// The maximum number of attempts of resolv.conf: `RES_MAXRETRY` of the C library.
const ATTEMPTS_MAX: u32 = 5;
/// The maximum of `ndots`: `RES_MAXNDOTS` of the C library.
const NDOTS_MAX: u32 = 15;

/// The configuration of the system as it was read last.
#[derive(Default)]
pub(super) struct SystemConfig {
    client: Option<Arc<DnsClient>>,
    /// The stamps of the files when they were read.
    read: [Option<FileStamp>; 2],
    next_check_ms: u64,
}

/// The properties of a file that change when it is written or replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    modified: (i64, i64),
    bytes: u64,
    inode: u64,
    device: u64,
}

impl SystemConfig {
    /// Returns the client for the present configuration, and whether it has changed since the last
    /// call. The files are checked again when the time of the settings has passed.
    pub(super) fn client(
        &mut self,
        settings: &ResolverSettings,
        now_ms: u64,
    ) -> (Arc<DnsClient>, bool) {
        if let Some(client) = &self.client
            && now_ms < self.next_check_ms
        {
            return (Arc::clone(client), false);
        }
        self.next_check_ms = now_ms.saturating_add(settings.config_check_ms);
        let stamps = [stamp(&settings.resolv_conf), stamp(&settings.hosts)];
        match &self.client {
            Some(client) if stamps == self.read => (Arc::clone(client), false),
            _ => {
                let client = Arc::new(load(settings));
                self.client = Some(Arc::clone(&client));
                self.read = stamps;
                (client, true)
            }
        }
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let metadata = fs::metadata(path).ok()?;
    Some(FileStamp {
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        bytes: metadata.len(),
        inode: metadata.ino(),
        device: metadata.dev(),
    })
}

/// Reads both files. A file that cannot be read counts as empty: then this machine is asked
/// (resolv.conf(5)).
fn load(settings: &ResolverSettings) -> DnsClient {
    let hosts = HostsFile::parse(&read(&settings.hosts));
    let mut options = options(&read(&settings.resolv_conf));
    if !settings.name_servers.is_empty() {
        options.name_servers.clone_from(&settings.name_servers);
    }
    DnsClient::new(options, hosts, settings.config_check_ms)
}

/// Reads a file, up to [`CONFIG_FILE_MAX_BYTES`] and then without the line that was cut.
fn read(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Ok(file) = File::open(path) else { return bytes };
    let is_read = file.take(CONFIG_FILE_MAX_BYTES).read_to_end(&mut bytes);
    if is_read.is_err() || bytes.len() as u64 == CONFIG_FILE_MAX_BYTES {
        let whole_lines = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(whole_lines);
    }
    bytes
}

/// Parses resolv.conf. Malformed lines are left out, as the C library does. So are name servers
/// with a zone, such as `fe80::1%eth0`.
fn options(text: &[u8]) -> DnsOptions {
    let (config, _errors) = resolv_conf::Config::parse_with_errors(text);
    let plain = |server: &ScopedIp| match server {
        ScopedIp::V4(address) => Some(IpAddr::from(*address)),
        ScopedIp::V6(address, None) => Some(IpAddr::from(*address)),
        ScopedIp::V6(_, Some(_)) => None,
    };
    let mut addresses: Vec<IpAddr> = config.nameservers.iter().filter_map(plain).collect();
    if addresses.is_empty() {
        let local = resolv_conf::Config::new().get_nameservers_or_local();
        addresses.extend(local.iter().filter_map(plain));
    }
    addresses.truncate(NAME_SERVERS_MAX);
    let search = config.get_last_search_or_domain();
    let search = search.filter_map(|domain| HostName::parse(domain).ok());
    DnsOptions {
        name_servers: addresses.into_iter().map(|ip| SocketAddr::new(ip, DNS_PORT)).collect(),
        search: search.take(SEARCH_DOMAINS_MAX).collect(),
        ndots: config.ndots.min(NDOTS_MAX) as usize,
        timeout_seconds: config.timeout.clamp(1, TIMEOUT_MAX_SECONDS),
        attempts: config.attempts.clamp(1, ATTEMPTS_MAX) as usize,
        is_rotating: config.rotate,
        is_tcp_only: config.use_vc,
        is_ipv4_only: config.no_aaaa,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(options: &DnsOptions) -> Vec<String> {
        options.name_servers.iter().map(ToString::to_string).collect()
    }

    fn search(options: &DnsOptions) -> Vec<&str> {
        options.search.iter().map(HostName::as_str).collect()
    }

    #[test]
    fn options_are_those_of_resolv_conf() {
        let read = options(
            b"# comment\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\nnameserver 2001:db8::1\n\
              nonsense\nnameserver x\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n\
              domain old.example\nsearch a.example B.example. bad..name\n\
              options ndots:3 timeout:2 attempts:4 rotate use-vc no-aaaa unknown ndots:x",
        );
        assert_eq!(servers(&read), ["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.2:53"]);
        assert_eq!(search(&read), ["a.example", "b.example"]);
        assert_eq!((read.ndots, read.timeout_seconds, read.attempts), (3, 2, 4));
        assert!(read.is_rotating && read.is_tcp_only && read.is_ipv4_only);
    }

    /// resolv.conf(5): "If no nameserver entries are present, the default is to use the name server
    /// on the local machine."
    #[test]
    fn without_name_servers_the_loopback_address_is_queried() {
        for text in ["", "nameserver fe80::1%eth0\n", "search a.example"] {
            let read = options(text.as_bytes());
            assert_eq!(servers(&read), ["127.0.0.1:53", "[::1]:53"], "{text}");
            assert_eq!((read.ndots, read.timeout_seconds, read.attempts), (1, 5, 2));
            assert!(!read.is_rotating && !read.is_tcp_only && !read.is_ipv4_only);
        }
        assert_eq!(search(&options(b"domain a.example")), ["a.example"]);
    }

    #[test]
    fn options_are_bounded() {
        let read = options(b"options ndots:99 timeout:0 attempts:0");
        assert_eq!((read.ndots, read.timeout_seconds, read.attempts), (15, 1, 1));
        let read = options(b"options timeout:4000000000 attempts:99");
        assert_eq!((read.timeout_seconds, read.attempts), (30, 5));
        let many: String = (0..99).map(|n| format!(" s{n}.example")).collect();
        assert_eq!(options(format!("search{many}").as_bytes()).search.len(), SEARCH_DOMAINS_MAX);
    }
}
