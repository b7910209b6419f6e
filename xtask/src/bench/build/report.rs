//! The results of one site, as tables for the reader and as data.

use super::{Case, Made, Site};
use crate::bench::statistics::Spread;
use serde_json::{Value, json};
use std::fmt::Write;

/// Markdown: the goals, then what each program took.
pub(super) fn markdown(site: &Site, cases: &[Case], compared: bool) -> String {
    let rounds = cases.iter().map(|case| case.ours.len()).max().unwrap_or(0);
    let mut text = format!(
        "{} Rounds: {rounds}. Figures are medians; in brackets the least and the most. Size is \
         what clients would get: of each content the coded form, or the plain one where no coded \
         one is kept.\n\n",
        site.about
    );
    if compared {
        text.push_str("| Case | CPU over kawipiko's | goal | | size over kawipiko's | goal | |\n");
        text.push_str("|---|---|---|---|---|---|---|\n");
        cases.iter().for_each(|case| goal(&mut text, case));
    } else {
        text.push_str("kawipiko's archiver is not installed: nothing is compared with it.\n");
    }
    text.push_str("\n| Case | | CPU s | time s | size MB |\n|---|---|---|---|---|\n");
    for case in cases {
        for (name, made) in [("pinion", &case.ours), ("kawipiko", &case.theirs)] {
            row(&mut text, case, name, made);
        }
    }
    text
}

/// Every round of every case.
pub(super) fn data(cases: &[Case]) -> Value {
    let made = |made: &Made| {
        json!({
            "cpu_seconds": made.cost.cpu_seconds,
            "wall_seconds": made.cost.wall_seconds,
            "sent_bytes": made.sent_bytes,
        })
    };
    let rounds = |rounds: &[Made]| rounds.iter().map(made).collect::<Vec<_>>();
    let case = |case: &Case| {
        json!({
            "case": case.coding.shown(),
            "cpu_ratio": ratio(case, cpu).map(|ratio| ratio.data()),
            "size_ratio": ratio(case, size).map(|ratio| ratio.data()),
            "cpu_goal": case.coding.goal,
            "pinion": rounds(&case.ours),
            "kawipiko": rounds(&case.theirs),
        })
    };
    json!({ "cases": cases.iter().map(case).collect::<Vec<_>>() })
}

fn goal(text: &mut String, case: &Case) {
    let verdict = |met: bool| if met { "met" } else { "**missed**" };
    let (Some(cpu), Some(size)) = (ratio(case, cpu), ratio(case, size)) else { return };
    let goal = case.coding.goal;
    let _ = writeln!(
        text,
        "| {} | {} | ≤ {goal} | {} | {:.3} | ≤ 1 | {} |",
        case.coding.shown(),
        cpu.shown(3),
        verdict(cpu.median <= goal),
        size.median,
        verdict(size.median <= 1.0),
    );
}

fn row(text: &mut String, case: &Case, name: &str, made: &[Made]) {
    let shown = |figure: fn(&Made) -> f64, decimals| {
        Spread::of(made.iter().map(figure)).map(|spread| spread.shown(decimals))
    };
    let wall = |made: &Made| made.cost.wall_seconds;
    let (Some(cpu), Some(wall), Some(last)) = (shown(cpu, 2), shown(wall, 2), made.last()) else {
        return;
    };
    let megabytes = last.sent_bytes as f64 / 1e6;
    let _ =
        writeln!(text, "| {} | {name} | {cpu} | {wall} | {megabytes:.2} |", case.coding.shown());
}

/// Ours over theirs, round by round.
fn ratio(case: &Case, figure: fn(&Made) -> f64) -> Option<Spread> {
    Spread::of(case.ours.iter().zip(&case.theirs).map(|(own, other)| figure(own) / figure(other)))
}

fn cpu(made: &Made) -> f64 {
    made.cost.cpu_seconds
}

fn size(made: &Made) -> f64 {
    made.sent_bytes as f64
}
