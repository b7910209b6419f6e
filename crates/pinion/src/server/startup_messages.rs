//! The lines that a start prints: the served sites, the listeners, and a URL that a browser of this
//! machine can open.

use super::capacity::{Capacity, MemoryFit};
use super::listeners::{Bound, BoundQuic};
use super::memory_limit::{MemoryLimit, MemorySource};
use super::sites::LoadedSite;
use super::startup::Kit;
use super::status::io_name;
use crate::terminal::{count, counted, size};
use crate::warnings_and_notes;
use pinion_engine::release_memory;
use pinion_engine::stderr;
use pinion_site::host_selection::HostPattern;
use rustix::process::geteuid;
use std::net::{IpAddr, SocketAddr};

/// Sites of a configuration that get a line of their own; a thousand lines would hide the others.
const SITES_SHOWN_MAX: usize = 20;

/// Hosts of a site that its line names.
const HOSTS_SHOWN_MAX: usize = 3;

/// The hosts that browsers of this machine can ask for.
#[derive(Debug)]
pub(super) enum Hosts {
    /// Some site responds to every host that no other site names.
    Every,
    /// These alone; a request for any other host gets 421.
    Named(Vec<String>),
}

impl Hosts {
    /// Returns the hosts of all sites; without any site, every request has the same response.
    pub(super) fn of(sites: &[LoadedSite]) -> Self {
        if sites.is_empty() || sites.iter().any(|site| site.hosts().is_empty()) {
            return Self::Every;
        }
        let names = sites.iter().flat_map(LoadedSite::hosts).map(HostPattern::to_string);
        Self::Named(names.filter(|name| !name.starts_with('*')).collect())
    }
}

/// Prints the served sites, the number of workers, and the limits.
pub(super) fn print_start(kit: &Kit) {
    let Kit { description, settings, config, sites, io, workers, capacity, .. } = kit;
    let has_scripts = capacity.has_scripts();
    if let Some(asked) = capacity.asked {
        warnings_and_notes::warning(format_args!(
            "--max-connections {asked}: the limit on open files allows {0}, using {0}; raise it \
             (ulimit -n) or ask for less",
            capacity.connections
        ));
    }
    if let Some(asked) = capacity.asked_outgoing {
        warnings_and_notes::warning(format_args!(
            "--max-outgoing {asked}: the limit on open files allows {0}, using {0}; raise it \
             (ulimit -n) or ask for less",
            capacity.outgoing
        ));
    }
    let bound_bytes = capacity.bound_bytes(*workers, *io);
    let io = io_name(*io);
    stderr::line(format_args!(
        "pinion {}: {description}, {} on {io}, at most {} connections{} and {} of memory ({} not \
         counted)",
        env!("CARGO_PKG_VERSION"),
        counted(*workers as u64, "worker"),
        count(capacity.connections),
        if has_scripts {
            format!(", {} to other servers", count(capacity.outgoing))
        } else {
            String::new()
        },
        size(bound_bytes),
        if settings.is_store_only() { "keys and values" } else { "files of the site" },
    ));
    if let Some(line) = memory_line(capacity, &kit.memory) {
        stderr::line(format_args!("{line}"));
    }
    if has_scripts {
        stderr::line(format_args!(
            "uploads take at most {} in {} files of {} (--upload-space)",
            size(settings.upload_space_bytes),
            count(capacity.upload_files),
            std::env::temp_dir().display(),
        ));
    }
    if let Some(store) = settings.store.loaded() {
        stderr::line(format_args!(
            "the store has at most {} of keys and values (--store-memory)",
            size(store.live.memory_max_bytes as u64)
        ));
    }
    if kit.programs.table.script_count() > 0 {
        stderr::line(format_args!(
            "{} for scripts, run as the user of the server ({})",
            counted(kit.programs.table.script_count() as u64, "program"),
            geteuid().as_raw()
        ));
    }
    if let Some(words) =
        kit.programs.table.supervised_in_words(|name| kit.programs.of_sites.has(name))
    {
        stderr::line(format_args!("{words}"));
    }
    for words in kit.programs.of_sites.in_words() {
        stderr::line(format_args!("{words}"));
    }
    if config.is_some() {
        print_sites(sites);
    }
}

/// Returns a line about the limits that were chosen because there is little memory, if there are
/// any.
fn memory_line(capacity: &Capacity, memory: &MemoryLimit) -> Option<String> {
    let source = match memory.source {
        MemorySource::Machine => "this machine",
        MemorySource::Cgroup => "the control group",
    };
    let part = format!("a quarter of the {} of {source}", size(memory.bytes));
    let how = match capacity.fit {
        MemoryFit::Whole => return None,
        MemoryFit::Shrunk => format!("smaller defaults, to fit into {part}"),
        MemoryFit::Exceeded => format!("smallest defaults, more than {part}"),
    };
    let mut chosen = format!("buffers {} (--memory-budget)", size(capacity.buffer_bytes));
    if capacity.has_scripts() {
        let script = &capacity.script_memory;
        chosen.push_str(&format!(
            ", each Lua VM {} (--lua-vm-memory), a request in it {} (--lua-memory)",
            size(script.vm_bytes as u64),
            size(script.request_bytes as u64)
        ));
    }
    Some(format!("memory: {how}: {chosen}"))
}

/// Prints a line for each site of a configuration.
fn print_sites(sites: &[LoadedSite]) {
    let is_alone = sites.len() == 1;
    for site in sites.iter().take(SITES_SHOWN_MAX) {
        let hosts = hosts_in_words(site.hosts(), is_alone);
        stderr::line(format_args!("site {} for {hosts}", site.in_words()));
    }
    if let Some(more @ 1..) = sites.len().checked_sub(SITES_SHOWN_MAX) {
        stderr::line(format_args!("and {} more", counted(more as u64, "site")));
    }
}

fn hosts_in_words(hosts: &[HostPattern], is_alone: bool) -> String {
    if hosts.is_empty() {
        return if is_alone { "every host" } else { "every other host" }.to_owned();
    }
    let names: Vec<String> =
        hosts.iter().take(HOSTS_SHOWN_MAX).map(HostPattern::to_string).collect();
    match hosts.len().checked_sub(HOSTS_SHOWN_MAX) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {} more", names.join(", "), count(more as u64)),
    }
}

/// Returns the URLs of all listeners.
pub(super) fn urls(listeners: &[Bound], quic: &[BoundQuic]) -> Vec<String> {
    let urls = listeners.iter().map(|bound| bound.url.clone());
    urls.chain(quic.iter().map(|bound| bound.url.clone())).collect()
}

/// Prints the listeners, and the last line of a start: everything runs, and clients are served.
/// Between the two, memory that a build of a folder has left is freed.
pub(super) fn print_ready(urls: &[String], hosts: &Hosts, has_built: bool) {
    for url in urls {
        stderr::line(format_args!("listening {url}"));
    }
    let opened = urls.iter().find_map(|url| Some((local_url(url, hosts)?, reach(url))));
    if let Some((url, reach)) = opened {
        stderr::line(format_args!("open {url}{reach}"));
    }
    if has_built {
        // The workers serve already, so that the first clients do not wait for it.
        release_memory::release_code();
    }
    stderr::line(format_args!("ready"));
}

/// Returns the URL by which a browser of this machine gets a page of a listener: one that listens
/// on every address or on the loopback interface, with a host that a site responds to.
fn local_url(url: &str, hosts: &Hosts) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if !matches!(scheme, "http" | "https") {
        return None;
    }
    let (authority, path) = rest.split_once('/')?;
    let address: SocketAddr = authority.parse().ok()?;
    // The text after the path says that a listener speaks QUIC alone.
    if !path.is_empty() {
        return None;
    }
    let host = local_host(address.ip(), hosts)?;
    Some(match (scheme, address.port()) {
        ("http", 80) | ("https", 443) => format!("{scheme}://{host}/"),
        (_, port) => format!("{scheme}://{host}:{port}/"),
    })
}

/// Returns a remark about a listener that is not for this machine alone.
fn reach(url: &str) -> &'static str {
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split('/').next());
    let address = authority.and_then(|authority| authority.parse::<SocketAddr>().ok());
    if address.is_some_and(|address| address.ip().is_unspecified()) {
        " (all addresses of this machine)"
    } else {
        ""
    }
}

/// Returns a host that a site responds to and that leads to an address of this machine, if there is
/// one: `localhost` and its like, or, where the server listens on every address, the first host.
fn local_host(address: IpAddr, hosts: &Hosts) -> Option<&str> {
    let is_every = address.is_unspecified();
    if !is_every && !address.is_loopback() {
        return None;
    }
    let Hosts::Named(names) = hosts else { return Some("localhost") };
    let is_local = |name: &&String| match name.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) => ip == address || is_every && ip.is_loopback(),
        Err(_) => *name == "localhost" || name.ends_with(".localhost"),
    };
    let first = names.first().filter(|_| is_every);
    names.iter().find(is_local).or(first).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Hosts {
        Hosts::Named(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_local_url_is_one_that_a_browser_of_this_machine_can_open() {
        for (url, expected) in [
            ("http://127.0.0.1:8080/", Some("http://localhost:8080/")),
            ("http://0.0.0.0:8080/", Some("http://localhost:8080/")),
            ("http://[::]:80/", Some("http://localhost/")),
            ("https://[::1]:443/", Some("https://localhost/")),
            ("https://127.0.0.1:80/", Some("https://localhost:80/")),
            ("http://192.0.2.1:80/", None),
            ("https://[::]:443/ (HTTP/3)", None),
            ("unix:/run/pinion.sock", None),
            ("redis://127.0.0.1:6379/", None),
        ] {
            assert_eq!(local_url(url, &Hosts::Every).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_listener_on_every_address_is_noted() {
        for (url, is_remarked) in [
            ("http://[::]:8080/", true),
            ("https://0.0.0.0:443/", true),
            ("http://127.0.0.1:8080/", false),
            ("http://[::1]:8080/", false),
            ("unix:/run/pinion.sock", false),
        ] {
            assert_eq!(!reach(url).is_empty(), is_remarked, "{url}");
        }
    }

    /// A request for another host gets 421.
    #[test]
    fn a_local_url_has_a_host_of_a_site() {
        let (every, loopback) = ("http://[::]:8080/", "http://127.0.0.1:8080/");
        for (url, names, expected) in [
            (every, &["a.test", "b.test"][..], Some("http://a.test:8080/")),
            (loopback, &["a.test", "b.test"], None),
            (loopback, &["a.test", "localhost"], Some("http://localhost:8080/")),
            (every, &["a.test", "b.localhost"], Some("http://b.localhost:8080/")),
            (loopback, &["127.0.0.1"], Some("http://127.0.0.1:8080/")),
            (every, &["a.test", "[::1]"], Some("http://[::1]:8080/")),
            (loopback, &["[::1]"], None),
            (every, &[], None),
        ] {
            assert_eq!(local_url(url, &named(names)).as_deref(), expected, "{url} {names:?}");
        }
    }

    #[test]
    fn the_first_hosts_of_a_site_are_named() {
        let hosts = |names: &[&str]| -> Vec<HostPattern> {
            names.iter().map(|name| HostPattern::parse(name).expect("a host")).collect()
        };
        assert_eq!(hosts_in_words(&[], true), "every host");
        assert_eq!(hosts_in_words(&[], false), "every other host");
        assert_eq!(hosts_in_words(&hosts(&["a", "*.a", "b"]), false), "a, *.a, b");
        assert_eq!(hosts_in_words(&hosts(&["a", "b", "c", "d"]), false), "a, b, c and 1 more");
    }
}
