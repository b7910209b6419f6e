//! The results of one scenario, as tables for the reader and as data.

use super::measure::{CaseResult, Ratio, Results, Round};
use super::scenario::{Case, Figure, Scenario, Targets};
use serde_json::{Value, json};
use std::fmt::Write;

/// One figure of a round.
struct Column {
    name: &'static str,
    /// Returns `None` if the client of a case does not measure it.
    figure: fn(&Round) -> Option<f64>,
    decimals: usize,
    /// Whether the figure is only valid if the client was not busy.
    needs_calm_client: bool,
}

/// The work of the client and the bytes, of clients that measure them.
const CLIENT: [Column; 4] = [
    Column::new("client CPU µs/request", 3, Round::client_cpu),
    Column::new("requests per CPU s of both", 0, |round| Some(1e6 / round.total_cpu()?)),
    Column::new("bytes/response", 1, Round::bytes_per_response),
    Column::new("client's core %", 0, |round| Some(100.0 * round.client_share()?)),
];

/// The responses per second.
const RATE: [Column; 1] =
    [Column::of_calm("requests/s", |round| Some(round.measured.requests_per_second()))];

/// The response times in microseconds.
const LATENCIES: [Column; 6] = [
    Column::of_calm("p50 µs", |round| Some(round.measured.p50 as f64)),
    Column::of_calm("p75", |round| Some(round.measured.p75 as f64)),
    Column::of_calm("p90", |round| Some(round.measured.p90 as f64)),
    Column::of_calm("p99", |round| Some(round.measured.p99 as f64)),
    Column::of_calm("p99.9", |round| Some(round.measured.p999 as f64)),
    Column::of_calm("max", |round| Some(round.measured.max as f64)),
];

impl Column {
    const fn new(name: &'static str, decimals: usize, figure: fn(&Round) -> Option<f64>) -> Self {
        Self { name, figure, decimals, needs_calm_client: false }
    }

    const fn of_calm(name: &'static str, figure: fn(&Round) -> Option<f64>) -> Self {
        Self { needs_calm_client: true, ..Self::new(name, 0, figure) }
    }

    /// Returns the median of a case, in brackets if it does not count.
    fn shown(&self, case: &CaseResult) -> String {
        let Some(spread) = case.spread(self.figure) else { return "–".to_owned() };
        let median = format!("{:.*}", self.decimals, spread.median);
        let counts = !self.needs_calm_client || !case.is_client_busy();
        if counts { median } else { format!("({median})") }
    }
}

/// The explanation of the brackets.
const BUSY_CLIENT: &str = "Figures in brackets do not count: the client used at least 90 % of its \
                           core, so it is itself what limited them.";

/// Returns Markdown: the goals, then the measurements of each server, then the omitted cases.
pub(crate) fn markdown(scenario: &Scenario, results: &Results) -> String {
    let rounds = results.cases.iter().map(|case| case.rounds.len()).max().unwrap_or(0);
    let mut text = format!(
        "{}\n{} connections, {rounds} rounds of {} s. Figures are medians; in brackets the least \
         and the most.\n\n",
        scenario.about, scenario.connections, scenario.seconds,
    );
    text.push_str("| Figure | of | over that of | result | goal | |\n|---|---|---|---|---|---|\n");
    for ratio in &results.ratios {
        text.push_str(&goal(ratio));
    }
    text.push_str(&failures(&results.failures, rounds));
    text.push('\n');
    text.push_str("| | CPU µs/request |");
    let columns = columns(scenario);
    for column in &columns {
        let _ = write!(text, " {} |", column.name);
    }
    text.push_str(" errors | timeouts |\n|---|---|");
    text.push_str(&"---|".repeat(columns.len() + 2));
    text.push('\n');
    for case in &results.cases {
        text.push_str(&row(case, &columns));
    }
    if results.cases.iter().any(CaseResult::is_client_busy) {
        let _ = write!(text, "\n{BUSY_CLIENT}\n");
    }
    for note in &results.notes {
        let _ = write!(text, "\n{note}\n");
    }
    text
}

/// Returns the scenario as data: every round of every case.
pub(crate) fn data(scenario: &Scenario, results: &Results) -> Value {
    let round = |round: &Round| {
        let mut data = round.measured.data();
        data["cpu_us_per_request"] = json!(round.cpu);
        data
    };
    let case = |case: &CaseResult| {
        let rounds: Vec<Value> = case.rounds.iter().map(round).collect();
        json!({ "label": case.label, "rounds": rounds })
    };
    let ratio = |ratio: &Ratio| {
        json!({
            "figure": figure(ratio.figure), "case": ratio.case, "with": ratio.with,
            "limit": ratio.limit, "met": ratio.met(), "ratio": ratio.spread.data(),
            "is_client_busy": ratio.is_client_busy,
        })
    };
    json!({
        "connections": scenario.connections,
        "seconds": scenario.seconds,
        "cases": results.cases.iter().map(case).collect::<Vec<_>>(),
        "ratios": results.ratios.iter().map(ratio).collect::<Vec<_>>(),
        "failures": results.failures,
        "notes": results.notes,
    })
}

fn goal(ratio: &Ratio) -> String {
    let verdict = if ratio.is_client_busy { "busy client" } else { verdict(ratio.met()) };
    let limit = ratio.limit.map_or_else(String::new, |limit| format!("≤ {limit}"));
    let (figure, spread) = (figure(ratio.figure), ratio.spread.shown(3));
    format!("| {figure} | {} | {} | {spread} | {limit} | {verdict} |\n", ratio.case, ratio.with)
}

/// Returns one row for all cases of Pinion, naming those that failed. Without any measured case, it
/// reports that.
fn failures(cases: &[(String, u64)], rounds: usize) -> String {
    if cases.is_empty() || rounds == 0 {
        return "| failures | pinion | | | none | not measured |\n".to_owned();
    }
    let failed: Vec<&(String, u64)> = cases.iter().filter(|(_, count)| *count > 0).collect();
    let who = match failed.as_slice() {
        [] => "pinion".to_owned(),
        some => some.iter().map(|(case, _)| case.as_str()).collect::<Vec<_>>().join("; "),
    };
    let count: u64 = failed.iter().map(|(_, count)| count).sum();
    format!("| failures | {who} | | {count} | none | {} |\n", verdict(Some(failed.is_empty())))
}

fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "**missed**",
        None => "",
    }
}

/// Returns the columns after the CPU time of each case; medians over the rounds. For pipelined
/// requests wrk calculates percentiles from a wrong interval (see `wrk.rs`), so there they are
/// omitted.
fn columns(scenario: &Scenario) -> Vec<&'static Column> {
    let pipelined = |case: &Case| matches!(case.ask.pattern, Targets::Pipelined(_));
    let latencies = if scenario.cases.iter().any(pipelined) { &[] } else { &LATENCIES[..] };
    let client = if scenario.measures_clients() { &CLIENT[..] } else { &[] };
    client.iter().chain(&RATE).chain(latencies).collect()
}

fn row(case: &CaseResult, columns: &[&Column]) -> String {
    let cpu = case.spread(|round| Some(round.cpu));
    let cpu = cpu.map_or_else(String::new, |spread| spread.shown(3));
    let mut text = format!("| {} | {cpu} |", case.label);
    for column in columns {
        let _ = write!(text, " {} |", column.shown(case));
    }
    let sum = |count: fn(&Round) -> u64| case.rounds.iter().map(count).sum::<u64>();
    let errors = sum(|round| round.measured.errors);
    let timeouts = sum(|round| round.measured.timeouts);
    let _ = writeln!(text, " {errors} | {timeouts} |");
    text
}

fn figure(figure: Figure) -> &'static str {
    match figure {
        Figure::Cpu => "CPU",
        Figure::ClientCpu => "CPU of the client",
        Figure::TotalCpu => "CPU of both",
        Figure::Bytes => "bytes",
        Figure::P50 => "p50",
        Figure::P99 => "p99",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::load::cpu_time::ClientTime;
    use crate::bench::load::load_generators::Measured;

    #[test]
    fn figures_of_a_saturated_client_are_in_brackets() {
        let case = |client| {
            let measured = Measured {
                requests: 4,
                duration: 2_000_000,
                received_bytes: Some(1016),
                client,
                ..Measured::default()
            };
            let rounds = vec![Round { measured, cpu: 1.5 }; 2];
            CaseResult { label: "ours".to_owned(), rounds }
        };
        let shown = |case: &CaseResult| -> Vec<String> {
            CLIENT.iter().chain(&RATE).map(|column| column.shown(case)).collect()
        };
        let time = |cpu_us| Some(ClientTime { cpu_us, wall_us: 10 });
        assert_eq!(shown(&case(time(8))), ["2.000", "285714", "254.0", "80", "2"]);
        assert_eq!(shown(&case(time(9))), ["2.250", "266667", "254.0", "90", "(2)"]);
        assert_eq!(shown(&case(None)), ["–", "–", "254.0", "–", "2"]);
    }

    #[test]
    fn a_goal_is_met_only_by_measurements() {
        let row = |verdict| move |row: String| row.ends_with(&format!("| {verdict} |\n"));
        let case = |failures| [("pinion".to_owned(), failures)];
        assert!(row("not measured")(failures(&[], 0)));
        assert!(row("not measured")(failures(&[], 4)), "others ran, and Pinion did not");
        assert!(row("not measured")(failures(&case(0), 0)));
        assert!(row("met")(failures(&case(0), 4)));
        assert!(row("**missed**")(failures(&case(1), 4)));
    }
}
