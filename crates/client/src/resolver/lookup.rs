//! The lookup of one name: the hosts file, then the name servers, for the name itself and for the
//! names that the search list makes of it.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use pinion_jobs::async_thread::TaskOutput;
use pinion_jobs::job_queue::JobValue;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::ResolveError;
use super::hosts_file::HostsFile;
use super::name_cache::FamilyAnswer;
use crate::connect_target::HostName;
use crate::happy_eyeballs::AddressFamily;
use crate::limits::{
    ADDRESSES_PER_FAMILY_MAX, FAILURE_TTL_SECONDS, LOOKUPS_AT_ONCE_MAX, NEGATIVE_TTL_MAX_SECONDS,
    TTL_MAX_SECONDS,
};

/// The options of lookups: the part of resolv.conf that counts.
#[derive(Clone, Debug)]
pub(super) struct DnsOptions {
    pub(super) name_servers: Vec<SocketAddr>,
    pub(super) search: Vec<HostName>,
    /// A name with fewer dots is tried with the search list first.
    pub(super) ndots: usize,
    pub(super) timeout_seconds: u32,
    /// How often the name servers are asked, at least once.
    pub(super) attempts: usize,
    /// Whether the name servers are asked in turn.
    pub(super) is_rotating: bool,
    pub(super) is_tcp_only: bool,
    pub(super) is_ipv4_only: bool,
}

/// A client of the name servers and the hosts file.
pub(super) struct DnsClient {
    options: DnsOptions,
    hosts: HostsFile,
    hosts_ttl_seconds: u32,
    /// The resolver of all name servers, or the reason why there is none.
    resolver: Result<TokioResolver, String>,
    /// A resolver for each name server, if there are several.
    single: Vec<TokioResolver>,
}

impl DnsClient {
    pub(super) fn new(options: DnsOptions, hosts: HostsFile, config_check_ms: u64) -> Self {
        let servers: Vec<NameServerConfig> =
            options.name_servers.iter().map(|server| name_server(*server, &options)).collect();
        let single = match &servers[..] {
            [] | [_] => Vec::new(),
            several => {
                let of_one = |server: &NameServerConfig| build(vec![server.clone()], &options).ok();
                several.iter().filter_map(of_one).collect()
            }
        };
        let resolver = build(servers, &options);
        let hosts_ttl_seconds = u32::try_from(config_check_ms / 1000).unwrap_or(TTL_MAX_SECONDS);
        Self { options, hosts, hosts_ttl_seconds, resolver, single }
    }

    /// Returns the names to ask for, in their order (resolv.conf(5), `ndots` and `search`).
    fn candidates(&self, name: &HostName) -> Vec<String> {
        let itself = format!("{}.", name.as_str());
        if name.is_absolute() {
            return vec![itself];
        }
        let search = &self.options.search;
        let with = |domain: &HostName| format!("{}.{}.", name.as_str(), domain.as_str());
        let mut candidates: Vec<String> = search.iter().map(with).collect();
        let dots = name.as_str().bytes().filter(|byte| *byte == b'.').count();
        let position = if dots >= self.options.ndots { 0 } else { candidates.len() };
        candidates.insert(position, itself);
        candidates
    }

    /// Returns the answer of the hosts file. A name in that file is not asked for, in neither
    /// family (hosts(5)).
    fn hosts_answer(&self, name: &HostName, family: AddressFamily) -> Option<FamilyAnswer> {
        let mut addresses = self.hosts.get(name)?.to_vec();
        addresses.retain(|address| AddressFamily::of(*address) == family);
        let result = if addresses.is_empty() {
            Err(ResolveError::NoAddress(name.to_string(), family))
        } else {
            Ok(addresses)
        };
        Some(FamilyAnswer { result, ttl_seconds: self.hosts_ttl_seconds })
    }

    /// Queries the addresses of one family. `name` is that of the caller, for messages.
    async fn ask(&self, name: &HostName, candidate: &str, family: AddressFamily) -> FamilyAnswer {
        let started = Instant::now();
        if family == AddressFamily::Ipv6 && self.options.is_ipv4_only {
            let error = ResolveError::NoAddress(name.to_string(), family);
            return FamilyAnswer { result: Err(error), ttl_seconds: TTL_MAX_SECONDS };
        }
        let unusable = |reason: String| {
            let error = ResolveError::Unusable { name: name.to_string(), reason };
            FamilyAnswer { result: Err(error), ttl_seconds: FAILURE_TTL_SECONDS }
        };
        let resolver = match &self.resolver {
            Ok(resolver) => resolver,
            Err(reason) => return unusable(reason.clone()),
        };
        let record_type = match family {
            AddressFamily::Ipv4 => RecordType::A,
            AddressFamily::Ipv6 => RecordType::AAAA,
        };
        let candidate = match Name::from_ascii(candidate) {
            Ok(candidate) => candidate,
            // The search list has made the name too long.
            Err(error) => return unusable(error.to_string()),
        };
        let error = match resolver.lookup(candidate.clone(), record_type).await {
            Ok(lookup) => return answer(name, family, &lookup),
            Err(error) => error,
        };
        // Several servers were asked at once, and the first response was used. If it is an error
        // of its server, another one may be able to respond.
        if matches!(error, NetError::Dns(DnsError::ResponseCode(_)) | NetError::Proto(_)) {
            for resolver in &self.single {
                match resolver.lookup(candidate.clone(), record_type).await {
                    Ok(lookup) => return answer(name, family, &lookup),
                    Err(error @ NetError::Dns(DnsError::NoRecordsFound(_))) => {
                        return failure(name, family, error, started);
                    }
                    Err(_) => {}
                }
            }
        }
        failure(name, family, error, started)
    }
}

/// Builds a resolver without a cache, hosts file and search list: this crate has its own.
fn build(servers: Vec<NameServerConfig>, options: &DnsOptions) -> Result<TokioResolver, String> {
    let config = ResolverConfig::from_name_servers(servers);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    let settings = builder.options_mut();
    settings.timeout = Duration::from_secs(options.timeout_seconds.into());
    // These are the attempts after the first one.
    settings.attempts = options.attempts.saturating_sub(1);
    settings.use_hosts_file = ResolveHosts::Never;
    settings.cache_size = 0;
    settings.max_active_requests = 2 * LOOKUPS_AT_ONCE_MAX;
    if options.is_rotating {
        settings.server_ordering_strategy = ServerOrderingStrategy::RoundRobin;
    }
    builder.build().map_err(|error| error.to_string())
}

fn name_server(address: SocketAddr, options: &DnsOptions) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::tcp()];
    if !options.is_tcp_only {
        connections.insert(0, ConnectionConfig::udp());
    }
    connections.iter_mut().for_each(|connection| connection.port = address.port());
    NameServerConfig::new(address.ip(), true, connections)
}

/// A result of a lookup: the answer for one family.
#[derive(Debug)]
pub(super) struct LookupAnswer {
    pub(super) family: AddressFamily,
    pub(super) answer: FamilyAnswer,
}

impl JobValue for LookupAnswer {
    fn held_bytes(&self) -> usize {
        let of_result = match &self.answer.result {
            Ok(addresses) => addresses.capacity() * size_of::<IpAddr>(),
            // The texts are the name and a line.
            Err(_) => 0,
        };
        size_of::<Self>() + of_result
    }
}

/// Looks a name up, and sends the answer for each family once. A permit limits how many lookups
/// query at the same time; the timeout includes the wait for it.
pub(super) async fn look_up(
    client: &DnsClient,
    permits: &Semaphore,
    name: &HostName,
    timeout_ms: u64,
    output: &mut TaskOutput<LookupAnswer>,
) {
    let mut delivery = Delivery { output, is_delivered: [false; 2] };
    let asking = async {
        for family in [AddressFamily::Ipv6, AddressFamily::Ipv4] {
            if let Some(answer) = client.hosts_answer(name, family) {
                delivery.deliver(family, answer).await;
            }
        }
        if delivery.is_delivered == [true; 2] {
            return;
        }
        // The semaphore is never closed.
        let _permit = permits.acquire().await;
        ask_candidates(client, name, &mut delivery).await;
    };
    if timeout(Duration::from_millis(timeout_ms), asking).await.is_err() {
        let error = ResolveError::NoAnswer { name: name.to_string(), waited_ms: timeout_ms };
        let late = FamilyAnswer { result: Err(error), ttl_seconds: FAILURE_TTL_SECONDS };
        delivery.deliver(AddressFamily::Ipv6, late.clone()).await;
        delivery.deliver(AddressFamily::Ipv4, late).await;
    }
}

/// A delivery that reports each family once.
struct Delivery<'o> {
    output: &'o mut TaskOutput<LookupAnswer>,
    /// Whether a family was delivered: IPv4, IPv6.
    is_delivered: [bool; 2],
}

impl Delivery<'_> {
    async fn deliver(&mut self, family: AddressFamily, answer: FamilyAnswer) {
        let [ipv4, ipv6] = &mut self.is_delivered;
        let is_delivered = if family == AddressFamily::Ipv4 { ipv4 } else { ipv6 };
        if !*is_delivered {
            self.output.send(LookupAnswer { family, answer }).await;
            *is_delivered = true;
        }
    }
}

/// Queries one candidate after the other, until one has an address, or a server fails: then it is
/// not known whether the next candidate is meant.
async fn ask_candidates(client: &DnsClient, name: &HostName, delivery: &mut Delivery<'_>) {
    use AddressFamily::{Ipv4, Ipv6};
    let candidates = client.candidates(name);
    // The answer if no candidate has an address: that of an existing candidate, if there is one.
    let mut absent: Option<(FamilyAnswer, FamilyAnswer)> = None;
    for candidate in &candidates {
        let mut ipv4 = pin!(client.ask(name, candidate, Ipv4));
        let mut ipv6 = pin!(client.ask(name, candidate, Ipv6));
        let (first, answer) = tokio::select! {
            answer = &mut ipv4 => (Ipv4, answer),
            answer = &mut ipv6 => (Ipv6, answer),
        };
        if answer.result.is_ok() {
            delivery.deliver(first, answer.clone()).await;
        }
        let (ipv4, ipv6) = match first {
            Ipv4 => (answer, ipv6.await),
            Ipv6 => (ipv4.await, answer),
        };
        if is_absent(&ipv4) && is_absent(&ipv6) {
            let exists =
                |answer: &FamilyAnswer| matches!(answer.result, Err(ResolveError::NoAddress(..)));
            if absent.is_none() || exists(&ipv4) || exists(&ipv6) {
                absent = Some((ipv4, ipv6));
            }
            continue;
        }
        delivery.deliver(Ipv6, ipv6).await;
        delivery.deliver(Ipv4, ipv4).await;
        return;
    }
    if let Some((ipv4, ipv6)) = absent {
        delivery.deliver(Ipv6, ipv6).await;
        delivery.deliver(Ipv4, ipv4).await;
    }
}

/// Returns whether a name server has responded that there are no addresses.
fn is_absent(answer: &FamilyAnswer) -> bool {
    matches!(answer.result, Err(ResolveError::NoSuchName(_) | ResolveError::NoAddress(..)))
}

/// Reads the addresses of a response.
fn answer(name: &HostName, family: AddressFamily, lookup: &Lookup) -> FamilyAnswer {
    let address = |data: &RData| -> Option<IpAddr> {
        match data {
            RData::A(address) => Some(IpAddr::V4(**address)),
            RData::AAAA(address) => Some(IpAddr::V6(**address)),
            _ => None,
        }
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for found in lookup.answers().iter().filter_map(|record| address(&record.data)) {
        let is_of_family = AddressFamily::of(found) == family;
        if is_of_family && addresses.len() < ADDRESSES_PER_FAMILY_MAX && !addresses.contains(&found)
        {
            addresses.push(found);
        }
    }
    let ttl = lookup.valid_until().saturating_duration_since(Instant::now());
    // The TTL is rounded up, since some of it has passed since the response arrived.
    let ttl_seconds = u32::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(TTL_MAX_SECONDS);
    let result = if addresses.is_empty() {
        Err(ResolveError::NoAddress(name.to_string(), family))
    } else {
        Ok(addresses)
    };
    FamilyAnswer { result, ttl_seconds: ttl_seconds.min(TTL_MAX_SECONDS) }
}

/// Returns the reason why there is no response with addresses.
fn failure(
    name: &HostName,
    family: AddressFamily,
    error: NetError,
    started: Instant,
) -> FamilyAnswer {
    let name = name.to_string();
    let mut ttl_seconds = FAILURE_TTL_SECONDS;
    let error = match error {
        NetError::Dns(DnsError::NoRecordsFound(absent)) => {
            // RFC 2308 §5: without a SOA record it is not known how long.
            let ttl = absent.negative_ttl.unwrap_or(FAILURE_TTL_SECONDS);
            ttl_seconds = ttl.min(NEGATIVE_TTL_MAX_SECONDS);
            match absent.response_code {
                ResponseCode::NXDomain => ResolveError::NoSuchName(name),
                _ => ResolveError::NoAddress(name, family),
            }
        }
        NetError::Dns(DnsError::ResponseCode(code)) => {
            ResolveError::ServerFailure { name, code: code.to_string() }
        }
        NetError::Timeout => {
            let waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            ResolveError::NoAnswer { name, waited_ms }
        }
        NetError::NoConnections => {
            let reason = "no name server accepts a connection".to_owned();
            ResolveError::Unusable { name, reason }
        }
        error => ResolveError::Unusable { name, reason: error.to_string() },
    };
    FamilyAnswer { result: Err(error), ttl_seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(search: &[&str], ndots: usize) -> DnsClient {
        let options = DnsOptions {
            name_servers: Vec::new(),
            search: search.iter().map(|text| HostName::parse(text).expect(text)).collect(),
            ndots,
            timeout_seconds: 1,
            attempts: 1,
            is_rotating: false,
            is_tcp_only: false,
            is_ipv4_only: false,
        };
        DnsClient::new(options, HostsFile::default(), 5000)
    }

    /// resolv.conf(5): names with fewer dots than `ndots` are tried with the search list first.
    #[test]
    fn candidates_follow_the_search_list() {
        for (name, ndots, expected) in [
            ("db", 1, &["db.a.example.", "db.b.example.", "db."][..]),
            ("db.x", 1, &["db.x.", "db.x.a.example.", "db.x.b.example."]),
            ("db.x", 2, &["db.x.a.example.", "db.x.b.example.", "db.x."]),
            ("db", 0, &["db.", "db.a.example.", "db.b.example."]),
            ("db.", 1, &["db."]),
        ] {
            let client = client(&["a.example", "b.example"], ndots);
            let name = HostName::parse(name).expect(name);
            assert_eq!(client.candidates(&name), expected, "{name} {ndots}");
        }
    }
}
