//! Runs one scenario: servers take turns, round after round.

use super::background_flood::Attack;
use super::compared_servers::{Setup, Workshop};
use super::cpu_time::ClientTime;
use super::h2load::Streams;
use super::h3load;
use super::load_generators::{Job, Measured};
use super::measured_server::Server;
use super::oha::{self, Crowd};
use super::response_check;
use super::scenario::{Ask, Case, Client, Comparison, Figure, Scenario, Targets};
use super::served_content;
use super::tls_handshakes::Handshakes;
use super::wrk::{self, Pattern};
use crate::bench::statistics::Spread;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// The results of a scenario.
pub(crate) struct Results {
    pub(crate) cases: Vec<CaseResult>,
    pub(crate) ratios: Vec<Ratio>,
    /// The cases of Pinion with their numbers of failed requests, which must be 0.
    pub(crate) failures: Vec<(String, u64)>,
    /// The omitted cases, with the reasons.
    pub(crate) notes: Vec<String>,
}

/// One case in all rounds.
pub(crate) struct CaseResult {
    pub(crate) label: String,
    pub(crate) rounds: Vec<Round>,
}

/// One load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    pub(crate) measured: Measured,
    /// Microseconds of the server's CPU time for each response; infinite if there was none.
    pub(crate) cpu: f64,
}

impl Round {
    fn of(measured: Measured, nanoseconds: u64) -> Self {
        let round = Self { measured, cpu: 0.0 };
        Self { cpu: round.per_response(nanoseconds as f64 / 1e3), ..round }
    }

    /// Returns an amount for each response; infinite when there was none.
    fn per_response(&self, amount: f64) -> f64 {
        let responses = self.measured.requests;
        if responses > 0 { amount / responses as f64 } else { f64::INFINITY }
    }

    /// Returns the microseconds of the client's CPU time for each response, if it is measured.
    pub(crate) fn client_cpu(&self) -> Option<f64> {
        self.measured.client.map(|client| self.per_response(client.cpu_us as f64))
    }

    /// Returns the microseconds of the CPU time of server and client for each response.
    pub(crate) fn total_cpu(&self) -> Option<f64> {
        self.client_cpu().map(|client| self.cpu + client)
    }

    /// Returns the bytes that the client received for each response, if it counts them.
    pub(crate) fn bytes_per_response(&self) -> Option<f64> {
        self.measured.received_bytes.map(|bytes| self.per_response(bytes as f64))
    }

    /// Returns the part of its core that the client used, if it is measured.
    pub(crate) fn client_share(&self) -> Option<f64> {
        self.measured.client.map(ClientTime::share)
    }

    /// Returns a time within which this many responses arrived; infinite if there was none.
    fn within(&self, microseconds: u64) -> f64 {
        if self.measured.requests > 0 { microseconds.max(1) as f64 } else { f64::INFINITY }
    }
}

/// A comparison over all rounds.
pub(crate) struct Ratio {
    pub(crate) figure: Figure,
    pub(crate) case: String,
    /// The case of the comparison: the best of those that could be measured.
    pub(crate) with: String,
    pub(crate) limit: Option<f64>,
    pub(crate) spread: Spread,
    /// Whether it compares response times of which one is that of a busy client
    /// ([`CaseResult::is_client_busy`]). Such a ratio does not count.
    pub(crate) is_client_busy: bool,
}

impl Ratio {
    /// Returns whether the goal is met, if there is one and the ratio counts.
    pub(crate) fn met(&self) -> Option<bool> {
        self.limit.filter(|_| !self.is_client_busy).map(|limit| self.spread.median <= limit)
    }
}

/// The share of its core that a client may use. With more, the client itself limits the requests
/// per second, and delays the responses.
const CLIENT_SHARE_MAX: f64 = 0.9;

/// Pause of a server before and after a measured load.
const REST: Duration = Duration::from_millis(50);

/// Runs `scenario` for this many rounds.
pub(crate) fn run(shop: &Workshop, scenario: &Scenario, rounds: usize) -> Result<Results> {
    let mut notes = Vec::new();
    let servers = start(shop, scenario, &mut notes)?;
    let mut ready = Vec::new();
    for case in &scenario.cases {
        let Some(server) = servers.get(&case.setup) else { continue };
        match load(shop, scenario, case, server)? {
            Ok(job) => ready.push((case, server, job)),
            Err(note) => notes.push(note),
        }
    }
    let mut cases: Vec<CaseResult> = ready
        .iter()
        .map(|(case, ..)| CaseResult { label: case.label.clone(), rounds: Vec::new() })
        .collect();
    for round in 0..rounds {
        let mut order: Vec<usize> = (0..ready.len()).collect();
        // The order is reversed in every second round, so that each case follows and precedes its
        // neighbours.
        if round % 2 == 1 {
            order.reverse();
        }
        for at in order {
            let (case, server, job) = &ready[at];
            let result = once(server, job).with_context(|| case.label.clone())?;
            cases[at].rounds.push(result);
        }
        let shown: Vec<String> = cases.iter().map(CaseResult::latest).collect();
        eprintln!("  {} {}/{rounds}: {}", scenario.name, round + 1, shown.join(", "));
    }
    let ratios = scenario.comparisons.iter().filter_map(|c| ratio(c, &cases)).collect();
    let own = ready.iter().zip(&cases).filter(|((case, ..), _)| case.setup.program.is_pinion());
    let failures = own.map(|((case, ..), result)| (case.label.clone(), result.failures(&case.ask)));
    Ok(Results { failures: failures.collect(), cases, ratios, notes })
}

impl CaseResult {
    fn latest(&self) -> String {
        self.rounds
            .last()
            .map_or_else(String::new, |last| format!("{} {:.2}", self.label, last.cpu))
    }

    /// Returns how many requests failed, timed out or were refused unexpectedly.
    fn failures(&self, ask: &Ask) -> u64 {
        let refused = |measured: &Measured| if ask.status < 400 { measured.refusals } else { 0 };
        let failed = |round: &Round| {
            let measured = &round.measured;
            let silent = u64::from(measured.requests == 0);
            measured.errors + measured.timeouts + refused(measured) + silent
        };
        self.rounds.iter().map(failed).sum()
    }

    /// Returns the spread of a figure over the rounds; `None` if a round has none.
    pub(crate) fn spread(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        let figures: Option<Vec<f64>> = self.rounds.iter().map(figure).collect();
        Spread::of(figures?)
    }

    /// Returns whether the client used so much of its core that requests per second and response
    /// times are its own and not those of the server.
    pub(crate) fn is_client_busy(&self) -> bool {
        self.spread(Round::client_share).is_some_and(|share| share.median >= CLIENT_SHARE_MAX)
    }
}

/// Starts each server of the scenario once.
fn start(
    shop: &Workshop,
    scenario: &Scenario,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<Setup, Server>> {
    let mut servers = BTreeMap::new();
    for case in &scenario.cases {
        if servers.contains_key(&case.setup) {
            continue;
        }
        if matches!(case.ask.pattern, Targets::Random | Targets::Hot) {
            shop.many()?;
        }
        let started = shop.start(case.setup).with_context(|| case.label.clone())?;
        if let Some(server) = started {
            servers.insert(case.setup, server);
        } else {
            notes.push(format!("{} is left out: not installed.", case.label));
        }
    }
    Ok(servers)
}

/// Returns the load for a case, or the reason why it is omitted.
fn load(
    shop: &Workshop,
    scenario: &Scenario,
    case: &Case,
    server: &Server,
) -> Result<Result<Job, String>> {
    let mut fields = Vec::new();
    if case.ask.conditional {
        let etag = response_check::ask(server.address(), case.ask.path, &[])?.etag;
        let Some(etag) = etag else { return Ok(Err(format!("{}: no ETag.", case.label))) };
        fields.push(format!("If-None-Match: {etag}"));
    }
    if case.ask.closes {
        fields.push("Connection: close".to_owned());
    }
    if case.ask.keeps {
        fields.push("Connection: keep-alive".to_owned());
    }
    if !case.setup.program.is_bare()
        && let Some(wrong) = mismatch(case, server, &fields)?
    {
        if case.setup.program.is_pinion() {
            bail!("{}: {wrong}", case.label);
        }
        return Ok(Err(format!("{} is left out: {wrong}.", case.label)));
    }
    let job = job(shop, scenario, case, server, fields)?;
    let (Some(flood), Some(key)) = (case.ask.flood, case.setup.key) else { return Ok(job) };
    let (program, certificate) = (shop.flood(), shop.pair(key).certificate);
    let (server, seconds) = (server.address(), scenario.seconds);
    let attack = Attack { program, flood, server, certificate, seconds };
    attack.check()?;
    Ok(job.map(|job| Job::Flooded(Box::new(job), attack)))
}

/// Returns the parameters of the client of a case, or the reason why it cannot run.
fn job(
    shop: &Workshop,
    scenario: &Scenario,
    case: &Case,
    server: &Server,
    fields: Vec<String>,
) -> Result<Result<Job, String>> {
    let scheme = if case.setup.key.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}{}", server.address(), case.ask.path);
    let &Scenario { connections, seconds, .. } = scenario;
    Ok(Ok(match case.ask.client {
        Client::Wrk => {
            let pattern = match case.ask.pattern {
                Targets::One => Pattern::Plain,
                Targets::Pipelined(depth) => Pattern::Pipelined(depth),
                Targets::Random => Pattern::Paths(shop.many()?.all.clone()),
                Targets::Hot => Pattern::Paths(shop.many()?.hot.clone()),
                Targets::Pages => bail!("wrk does not request pages in turn"),
            };
            Job::Wrk(wrk::Load { connections, seconds, url, fields, pattern })
        }
        Client::H2 { streams } => {
            let urls = match case.ask.pattern {
                Targets::Pages => Some(page_urls(shop, server)?),
                _ => None,
            };
            Job::H2load(Streams {
                connections,
                streams,
                seconds,
                url,
                urls,
                times: shop.file("h2load.log"),
                rate: None,
            })
        }
        Client::H3 { streams } => {
            let (program, body_bytes) = (shop.h3load(), case.ask.body_bytes);
            Job::H3load(h3load::Load {
                program,
                connections,
                streams,
                seconds,
                url,
                body_bytes,
                rate: None,
            })
        }
        Client::Handshakes { resumed } => {
            let port = server.address().port();
            Job::Handshakes(Handshakes { port, clients: connections, seconds, resumed })
        }
        Client::Oha => {
            let Some(program) = oha::find() else {
                return Ok(Err(format!("{} is left out: oha is not installed.", case.label)));
            };
            Job::Oha(Crowd { program, connections, seconds, url, closes: case.ask.closes })
        }
    }))
}

/// Writes a file with the URLs of the small pages of a server.
fn page_urls(shop: &Workshop, server: &Server) -> Result<PathBuf> {
    let address = server.address();
    let urls: String =
        served_content::page_paths().map(|path| format!("https://{address}{path}\n")).collect();
    let file = shop.file(&format!("pages-{}.urls", address.port()));
    fs::write(&file, urls)?;
    Ok(file)
}

/// Returns how a server's response differs from the expected one.
fn mismatch(case: &Case, server: &Server, fields: &[String]) -> Result<Option<String>> {
    let (ask, address) = (&case.ask, server.address());
    let http2 = matches!(ask.client, Client::H2 { .. });
    let response = match case.setup.key {
        Some(_) => response_check::ask_encrypted(address, ask.path, http2)?,
        None => response_check::ask(address, ask.path, fields)?,
    };
    if response.status != ask.status {
        return Ok(Some(format!("answers {} with {}", ask.path, response.status)));
    }
    let wrong = ask.body_bytes.is_some() && response.body_bytes != ask.body_bytes;
    Ok(wrong.then(|| format!("{} has another length", ask.path)))
}

/// Runs one load on one server.
fn once(server: &Server, job: &Job) -> Result<Round> {
    thread::sleep(REST);
    let before = server.cpu()?;
    let measured = job.run()?;
    thread::sleep(REST);
    let nanoseconds = server.cpu()?.since(&before);
    Ok(Round::of(measured, nanoseconds))
}

/// Compares two cases round by round, with the best of the run; returns `None` if there is nothing
/// to compare.
fn ratio(comparison: &Comparison, cases: &[CaseResult]) -> Option<Ratio> {
    let find = |label: &String| cases.iter().find(|case| case.label == *label);
    let figures = |case: &CaseResult| -> Option<Vec<f64>> {
        let figure = |round: &Round| match comparison.figure {
            Figure::Cpu => Some(round.cpu),
            Figure::ClientCpu => round.client_cpu(),
            Figure::TotalCpu => round.total_cpu(),
            Figure::Bytes => round.bytes_per_response(),
            Figure::P50 => Some(round.within(round.measured.p50)),
            Figure::P99 => Some(round.within(round.measured.p99)),
        };
        case.rounds.iter().map(figure).collect()
    };
    let case = find(&comparison.case)?;
    let own = figures(case)?;
    let rivals = comparison.with.iter().filter_map(|label| {
        let case = find(label)?;
        let figures = figures(case)?;
        Some((Spread::of(figures.iter().copied())?.median, figures, case))
    });
    let (_, best, with) = rivals.min_by(|one, other| one.0.total_cmp(&other.0))?;
    let is_time = matches!(comparison.figure, Figure::P50 | Figure::P99);
    Some(Ratio {
        figure: comparison.figure,
        case: comparison.case.clone(),
        with: with.label.clone(),
        limit: comparison.limit,
        spread: Spread::of(own.iter().zip(&best).map(|(own, best)| own / best))?,
        is_client_busy: is_time && (case.is_client_busy() || with.is_client_busy()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(label: &str, cpu: &[f64]) -> CaseResult {
        let round = |&cpu: &f64| Round { measured: Measured::default(), cpu };
        CaseResult { label: label.to_owned(), rounds: cpu.iter().map(round).collect() }
    }

    #[test]
    fn each_round_is_compared_with_the_same_round_of_the_best_case() {
        let cases = [
            case("ours", &[2.0, 4.0, 3.0]),
            case("slow", &[1.0, 9.0, 9.0]),
            case("best", &[2.0, 2.0, 1.0]),
        ];
        let with = ["slow", "best", "absent"].map(str::to_owned).to_vec();
        let comparison =
            Comparison { figure: Figure::Cpu, case: "ours".to_owned(), with, limit: Some(1.9) };
        let ratio = ratio(&comparison, &cases).unwrap();
        assert_eq!(ratio.with, "best");
        assert_eq!(ratio.spread, Spread { least: 1.0, median: 2.0, most: 3.0 });
        assert_eq!(ratio.met(), Some(false));
    }

    #[test]
    fn response_times_of_a_saturated_client_do_not_count() {
        let round = |cpu_us| {
            let client = Some(ClientTime { cpu_us, wall_us: 100 });
            let measured = Measured { requests: 10, p50: 5, client, ..Measured::default() };
            Round { measured, cpu: 1.0 }
        };
        let case = |label: &str, cpu_us| CaseResult {
            label: label.to_owned(),
            rounds: vec![round(cpu_us); 3],
        };
        let cases = [case("ours", 50), case("calm", 89), case("busy", 90)];
        let met = |figure, with: &str| {
            let with = vec![with.to_owned()];
            let comparison = Comparison { figure, case: "ours".to_owned(), with, limit: Some(1.0) };
            ratio(&comparison, &cases).unwrap().met()
        };
        assert_eq!(met(Figure::P50, "calm"), Some(true));
        assert_eq!(met(Figure::P50, "busy"), None);
        assert_eq!(met(Figure::Cpu, "busy"), Some(true));
        assert_eq!(met(Figure::ClientCpu, "busy"), Some(true));
        assert_eq!(cases[0].rounds[0].total_cpu(), Some(6.0));
    }

    #[test]
    fn refusals_are_failures_unless_expected() {
        let mut result = case("ours", &[1.0, 1.0]);
        for round in &mut result.rounds {
            round.measured = Measured {
                requests: 20,
                errors: 1,
                timeouts: 2,
                refusals: 10,
                ..Measured::default()
            };
        }
        let ask = |status| Ask { status, ..Ask::new("/") };
        assert_eq!(result.failures(&ask(200)), 26);
        assert_eq!(result.failures(&ask(404)), 6);
    }

    #[test]
    fn a_round_without_responses_is_a_failure_and_never_the_best() {
        let silent = Round::of(Measured::default(), 5_000);
        assert!(silent.cpu.is_infinite() && silent.within(1).is_infinite());
        let result = CaseResult { label: "ours".to_owned(), rounds: vec![silent] };
        assert_eq!(result.failures(&Ask::new("/")), 1);
        let answered = Measured { requests: 10, ..Measured::default() };
        assert_eq!(Round::of(answered, 5_000).cpu, 0.5);
    }

    #[test]
    fn without_a_case_to_compare_with_there_is_no_ratio() {
        let with = vec!["absent".to_owned()];
        let comparison =
            Comparison { figure: Figure::Cpu, case: "ours".to_owned(), with, limit: None };
        assert!(ratio(&comparison, &[case("ours", &[1.0])]).is_none());
    }
}
