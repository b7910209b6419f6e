//! `cargo xtask bench load`: the cost of a response, compared with the bare loops and other
//! servers.
//!
//! The benchmark measures CPU time of the server per request, with the server on one core and the
//! load on another. Servers take turns within one run, and only ratios within a round count: a slow
//! or shared machine affects all of them.
//!
//! | Module | Contents |
//! |---|---|
//! | `scenario` | the table of scenarios |
//! | `measure` | the rounds of one scenario |
//! | `result_tables` | its results |
//! | `compared_servers` | the compared servers and their start |
//! | `server_versions` | their versions and names in tables |
//! | `measured_server`, `cpu_time` | a measured server on a core of its own; its CPU time |
//! | `served_content`, `certificates` | the content that all servers serve; their certificates |
//! | `response_check` | the check that a server sends the response that is measured |
//! | `load_generators` | the programs that create the load, and their measurements |
//! | `wrk`, `h2load`, `h3load`, `oha` | loads with each of these programs |
//! | `fixed_rate` | the cost and latency of requests at a fixed rate |
//! | `lua_scenarios`, `lua_fetch` | scripts; their requests to other servers |
//! | `access_checks` | checks of access |
//! | `tls_scenarios`, `tls_handshakes` | the cost of TLS and HTTP/2, and of handshakes |
//! | `h3_scenarios` | the cost of HTTP/3 |
//! | `proxy` | forwarded requests |
//! | `fastcgi` | PHP-FPM |
//! | `proxied_event_streams` | a thousand event streams through the proxy |
//! | `store` | the cost of the store, compared with redis-server and Valkey |
//! | `idle_connection_memory` | the memory of idle connections |
//! | `persistent_connection_memory` | of busy connections |
//! | `held_heads` | of the heads of attackers |
//! | `background_flood`, `floods` | a flood during a load; the effect of a flood on other clients |

mod access_checks;
mod background_flood;
mod certificates;
mod compared_servers;
pub(super) mod cpu_time;
mod fastcgi;
mod fixed_rate;
mod floods;
pub(super) mod h2load;
mod h3_scenarios;
mod h3load;
mod held_heads;
mod idle_connection_memory;
pub(super) mod load_generators;
mod lua_fetch;
mod lua_scenarios;
mod measure;
pub(super) mod measured_server;
mod oha;
mod persistent_connection_memory;
pub(super) mod proxied_event_streams;
mod proxy;
mod response_check;
mod result_tables;
mod scenario;
mod served_content;
mod server_versions;
mod store;
mod tls_handshakes;
mod tls_scenarios;
pub(super) mod wrk;

use super::runs::Run;
use anyhow::{Context, Result, bail};
use compared_servers::Workshop;
use scenario::Scenario;
use serde_json::{Map, Value};
use std::path::PathBuf;

const USAGE: &str = "\
usage: cargo xtask bench load [OPTIONS]
  --only NAME[,NAME]   only these; tls-idle, lua-crowd, fetch, proxy, fastcgi, streams,
                       access, store and fixed-rate are some, too
  --sweep              the sweep over connection counts instead
  --steps N[,N]        only these connection counts of the sweep
  --rounds N           how often the servers take turns [7; store and fixed-rate: 5, sweep: 3]
  --seconds N          how long each load lasts [2; one more for each 4096 connections]
  --before FILE        beside an earlier program of Pinion, at FILE
  --name NAME          the run's name [the host's]
  --json               the data on stdout";

/// A measurement that is no load of one kind; it returns the report and the data.
type Part = fn(&Workshop) -> Result<(String, Value)>;

const PARTS: [(&str, Part); 10] = [
    (held_heads::NAME, held_heads::run),
    (idle_connection_memory::NAME, idle_connection_memory::run),
    (persistent_connection_memory::NAME, persistent_connection_memory::run),
    (lua_fetch::NAME, lua_fetch::run),
    (proxy::NAME, proxy::run),
    (fastcgi::NAME, fastcgi::run),
    (proxied_event_streams::NAME, proxied_event_streams::run),
    (access_checks::NAME, access_checks::run),
    (store::NAME, store::run),
    (fixed_rate::NAME, fixed_rate::run),
];

/// The options of the command line.
#[derive(Debug, PartialEq)]
struct Options {
    only: Vec<String>,
    sweep: bool,
    steps: Vec<u32>,
    rounds: Option<usize>,
    seconds: u32,
    before: Option<PathBuf>,
    name: Option<String>,
    json: bool,
}

/// Measures the scenarios of the options and records each as a part of today's run.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let (mut scenarios, parts) = (options.scenarios()?, options.parts());
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("a server and its load need a core each, and there is only one");
    }
    let rounds = options.rounds.unwrap_or(if options.sweep { 3 } else { 7 });
    let shop = Workshop::set_up(options.before.as_deref(), options.rounds)?;
    if options.before.is_some() {
        scenarios.iter_mut().for_each(Scenario::compare_with_before);
    }
    if !shop.has_current_peers() {
        eprintln!(
            "current releases of other servers are left out: `cargo xtask bench peers` installs \
             them"
        );
    }
    let mut run = Run::open(options.name.as_deref())?;
    for (program, version) in shop.versions() {
        run.note(program, &version);
    }
    for scenario in &mut scenarios {
        scenario.name_versions(|program| shop.label(program));
    }
    let mut all = Map::new();
    for scenario in &scenarios {
        let results = measure::run(&shop, scenario, rounds)?;
        let report = result_tables::markdown(scenario, &results);
        let data = result_tables::data(scenario, &results);
        run.record(&scenario.name, &report, &data)?;
        if !options.json {
            println!("\n== {}\n\n{report}", scenario.name);
        }
        all.insert(scenario.name.clone(), data);
    }
    for (name, part) in parts {
        let (report, data) = part(&shop)?;
        run.record(name, &report, &data)?;
        if !options.json {
            println!("\n== {name}\n\n{report}");
        }
        all.insert((*name).to_owned(), data);
    }
    eprintln!("recorded in {}", run.shown());
    if options.json {
        println!("{:#}", Value::from(all));
    }
    Ok(())
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self {
            only: Vec::new(),
            sweep: false,
            steps: Vec::new(),
            rounds: None,
            seconds: 2,
            before: None,
            name: None,
            json: false,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().with_context(|| format!("{word} needs a value\n{USAGE}"));
            match *word {
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--sweep" => options.sweep = true,
                "--steps" => {
                    for step in value()?.split(',') {
                        options.steps.push(number(step)?);
                    }
                }
                "--rounds" => options.rounds = Some(number(value()?)? as usize),
                "--seconds" => options.seconds = number(value()?)?,
                "--before" => options.before = Some(value()?.into()),
                "--name" => options.name = Some((*value()?).to_owned()),
                "--json" => options.json = true,
                _ => bail!("not an option: {word}\n{USAGE}"),
            }
        }
        Ok(options)
    }

    /// Returns the selected parts that are no scenarios.
    fn parts(&self) -> Vec<&'static (&'static str, Part)> {
        let is_asked = |name: &str| self.only.is_empty() || self.only.iter().any(|it| it == name);
        PARTS.iter().filter(|(name, _)| !self.sweep && is_asked(name)).collect()
    }

    fn scenarios(&self) -> Result<Vec<Scenario>> {
        if self.sweep {
            let steps = if self.steps.is_empty() { scenario::SWEEP } else { &self.steps };
            return Ok(steps.iter().map(|&count| scenario::step(count, self.seconds)).collect());
        }
        let mut scenarios = scenario::all(self.seconds);
        let names: Vec<String> = scenarios.iter().map(|scenario| scenario.name.clone()).collect();
        let parts = PARTS.map(|(name, _)| name);
        let known = |name: &String| names.contains(name) || parts.contains(&name.as_str());
        if let Some(unknown) = self.only.iter().find(|name| !known(name)) {
            bail!("no scenario {unknown}; there are {}, {}", names.join(", "), parts.join(", "));
        }
        if !self.only.is_empty() {
            scenarios.retain(|scenario| self.only.contains(&scenario.name));
        }
        Ok(scenarios)
    }
}

/// Parses a count of at least one.
fn number(text: &str) -> Result<u32> {
    text.parse().ok().filter(|&count| count > 0).with_context(|| format!("not a count: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_scenarios_and_steps() {
        let only = Options::parse(&["--only", "close,large", "--rounds", "3"]).unwrap();
        assert_eq!(only.rounds, Some(3));
        let names = |options: &Options| -> Vec<String> {
            options.scenarios().unwrap().into_iter().map(|scenario| scenario.name).collect()
        };
        assert_eq!(names(&only), ["close", "large"]);
        assert!(only.parts().is_empty());
        let idle = Options::parse(&["--only", "tls-idle"]).unwrap();
        assert_eq!(idle.parts().len(), 1);
        assert!(names(&idle).is_empty());
        let sweep = Options::parse(&["--sweep", "--steps", "1,16384"]).unwrap();
        assert_eq!(names(&sweep), ["sweep-1", "sweep-16384"]);
    }

    #[test]
    fn unknown_options_and_scenarios_are_refused() {
        assert!(Options::parse(&["--nope"]).is_err());
        assert!(Options::parse(&["--rounds", "0"]).is_err());
        assert!(Options::parse(&["--name"]).is_err());
        let unknown = Options::parse(&["--only", "nothing"]).unwrap();
        assert!(unknown.scenarios().is_err());
    }
}
