//! The results of one site, as tables for the reader and as data.

use super::compressed_sizes::{Part, Split};
use super::{Case, Made, Site, THEIR_LEVEL};
use crate::bench::statistics::Spread;
use serde_json::{Value, json};
use std::fmt::Write;

/// Returns the report in Markdown: the goals, the costs of each program, and the differences of
/// sizes.
pub(super) fn markdown(site: &Site, cases: &[Case]) -> String {
    let rounds = cases.iter().map(|case| case.ours.len()).max().unwrap_or(0);
    let mut text = format!(
        "{} Rounds: {rounds}. Figures are medians; in brackets the least and the most. Size is \
         what clients would get: of each content the coded form, or the plain one where no coded \
         one is kept. kawipiko's level is {THEIR_LEVEL}, its default.\n\n",
        site.about
    );
    if cases.iter().all(|case| case.theirs.is_empty()) {
        text.push_str("kawipiko's archiver is not installed: nothing is compared with it.\n");
    } else {
        text.push_str("| Case | CPU over kawipiko's | goal | | size over kawipiko's | goal | |\n");
        text.push_str("|---|---|---|---|---|---|---|\n");
        cases.iter().for_each(|case| goal(&mut text, case));
    }
    text.push_str(
        "\n| Case | | CPU s | time s | size MB | archive MB | of it no bodies MB |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for case in cases {
        for (name, made) in [("pinion", &case.ours), ("kawipiko", &case.theirs)] {
            row(&mut text, case, name, made);
        }
    }
    text.push_str("\nOur archive has the plain form of every content too, theirs one form only.\n");
    if cases.iter().any(|case| case.split.is_some()) {
        text.push_str(
            "\n| Case | coded by | contents | pinion kB | kawipiko kB | size over kawipiko's |\n\
             |---|---|---|---|---|---|\n",
        );
        cases.iter().for_each(|case| split(&mut text, case));
    }
    text
}

/// Returns every round of every case.
pub(super) fn data(cases: &[Case]) -> Value {
    let made = |made: &Made| {
        json!({
            "cpu_seconds": made.cost.cpu_seconds,
            "wall_seconds": made.cost.wall_seconds,
            "sent_bytes": made.sent_bytes,
            "archive_bytes": made.archive_bytes,
            "other_bytes": made.other_bytes,
        })
    };
    let rounds = |rounds: &[Made]| rounds.iter().map(made).collect::<Vec<_>>();
    let case = |case: &Case| {
        json!({
            "case": case.level,
            "cpu_ratio": ratio(case, cpu).map(|ratio| ratio.data()),
            "size_ratio": ratio(case, size).map(|ratio| ratio.data()),
            "cpu_goal": case.coding.goal,
            "pinion": rounds(&case.ours),
            "kawipiko": rounds(&case.theirs),
            "coded_by": case.split.as_ref().map(split_data),
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
        "| {} | {} | ≤ {goal} | {} | {:.4} | ≤ 1 | {} |",
        case.level,
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
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let _ = writeln!(
        text,
        "| {} | {name} | {cpu} | {wall} | {:.2} | {:.2} | {:.2} |",
        case.level,
        megabytes(last.sent_bytes),
        megabytes(last.archive_bytes),
        megabytes(last.other_bytes),
    );
}

fn split(text: &mut String, case: &Case) {
    let parts = case.split.iter().flat_map(Split::parts);
    for (coded_by, part) in parts.filter(|(_, part)| part.contents > 0) {
        let (ours, theirs) = (part.ours_bytes as f64, part.theirs_bytes as f64);
        let _ = writeln!(
            text,
            "| {} | {coded_by} | {} | {:.1} | {:.1} | {:.4} |",
            case.level,
            part.contents,
            ours / 1e3,
            theirs / 1e3,
            ours / theirs,
        );
    }
}

fn split_data(split: &Split) -> Value {
    let part = |(coded_by, part): (&str, &Part)| {
        let data = json!({
            "contents": part.contents,
            "ours_bytes": part.ours_bytes,
            "theirs_bytes": part.theirs_bytes,
        });
        (coded_by.to_owned(), data)
    };
    Value::Object(split.parts().into_iter().map(part).collect())
}

/// Returns the figure of Pinion divided by that of the other program, round by round.
fn ratio(case: &Case, figure: fn(&Made) -> f64) -> Option<Spread> {
    Spread::of(case.ours.iter().zip(&case.theirs).map(|(own, other)| figure(own) / figure(other)))
}

fn cpu(made: &Made) -> f64 {
    made.cost.cpu_seconds
}

fn size(made: &Made) -> f64 {
    made.sent_bytes as f64
}
