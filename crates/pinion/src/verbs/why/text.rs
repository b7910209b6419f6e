//! Writes an explanation for people at a terminal.

use crate::explain::explanation::{
    Explanation, ExplanationStep, HeaderShown, HeaderSource, ListenerKind, RuleShown, SiteKind,
    StepName,
};
use crate::terminal::{Align, Columns, TerminalStyle, shown, size};
use pinion_http::status::reason;
use std::io::{self, Write};

/// The columns that every terminal has.
const WIDTH: usize = 80;

/// The widest column of headers that leaves room for their sources on the same line.
const HEADER_WIDTH_MAX: usize = 50;

/// Writes the explanation.
pub(super) fn write(
    all: &Explanation,
    out: &mut impl Write,
    style: TerminalStyle,
) -> io::Result<()> {
    let Explanation { method, url, .. } = all;
    let url = printable(url);
    writeln!(out, "{}", style.bold(format_args!("{} {url}", shown(method.as_bytes()))))?;
    for line in about_server(all) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    steps(&all.steps, out, style)?;
    writeln!(out)?;
    match all.status {
        Some(status) => {
            let line = format!("{status} {}", reason(status));
            let painted = match status {
                400.. => style.red(line),
                300..400 => style.yellow(line),
                _ => style.green(line),
            };
            writeln!(out, "{painted}")?;
        }
        None => writeln!(out, "{}", style.bold("Headers, unless the handler sets them"))?,
    }
    headers(all, out, style)?;
    codings(all, out, style)?;
    for note in &all.notes {
        writeln!(out, "\n{}: {}", style.yellow("note"), printable(note))?;
    }
    Ok(())
}

/// Returns a printable text. A text of this program is printable already; text that a server has
/// sent may come from any program, and must not control the terminal either.
fn printable(text: &str) -> String {
    let replaced = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(replaced).collect()
}

/// Returns the lines about the listener and the site.
fn about_server(all: &Explanation) -> Vec<String> {
    let mut rows = Vec::new();
    if let Some(listener) = &all.listener {
        let kind = match listener.kind {
            ListenerKind::Http => "HTTP",
            ListenerKind::Redirect => "redirects to HTTPS",
            ListenerKind::Tls => "TLS",
        };
        rows.push(["listener".to_owned(), format!("{} ({kind})", printable(&listener.address))]);
    }
    if let Some(site) = &all.site {
        let path = shown(site.path.as_bytes());
        let host = match &site.host {
            Some(host) => format!("for {}", printable(host)),
            None => "for every other host".to_owned(),
        };
        let host = if all.listener.is_some() { format!(", {host}") } else { String::new() };
        let kind = match site.kind {
            SiteKind::Archive => "archive",
            SiteKind::Folder => "folder",
            SiteKind::Releases => "release folder",
            SiteKind::Script => "script",
            SiteKind::Proxy => "reverse proxy",
        };
        rows.push(["site".to_owned(), format!("{path} ({kind}{host})")]);
    }
    Columns::new([Align::Left, Align::Left]).lines(&rows)
}

fn steps(steps: &[ExplanationStep], out: &mut impl Write, style: TerminalStyle) -> io::Result<()> {
    let widest = steps.iter().map(|step| in_words(step.name).len()).max().unwrap_or_default();
    let mut last = None;
    for step in steps {
        // Several rules may have been tried at one step.
        let is_same = last.replace(step.name) == Some(step.name);
        let number = step.number.filter(|_| !is_same);
        let number = number.map_or(" ".to_owned(), |number| number.to_string());
        let name = if is_same { "" } else { in_words(step.name) };
        let reason = printable(&step.reason);
        let (mark, reason) = if step.responds {
            (style.green(">"), style.bold(&reason))
        } else {
            (" ".to_owned(), reason)
        };
        writeln!(out, "{mark} {number} {name:widest$}  {reason}")?;
        if let Some(rule) = &step.rule {
            for line in about_rule(rule, WIDTH - widest - 6) {
                writeln!(out, "{:indent$}{}", "", style.dim(line), indent = widest + 6)?;
            }
        }
    }
    Ok(())
}

/// Returns where a rule is written and the rule, on one line if that fits.
fn about_rule(rule: &RuleShown, width: usize) -> Vec<String> {
    let text = shown(rule.text.as_bytes());
    let place = match (&rule.file, rule.line) {
        (Some(file), Some(line)) => format!("{}:{line}", shown(file.as_bytes())),
        _ => return vec![text],
    };
    if place.chars().count() + 2 + text.chars().count() <= width {
        vec![format!("{place}  {text}")]
    } else {
        vec![place, text]
    }
}

/// Returns the name of a step as people read it.
fn in_words(name: StepName) -> &'static str {
    match name {
        StepName::Access => "access",
        StepName::AcmeChallenge => "ACME challenge",
        StepName::BuiltInPage => "built-in page",
        StepName::Condition => "condition",
        StepName::Damage => "damage",
        StepName::FallbackPage => "fallback page",
        StepName::File => "file",
        StepName::ForcedRule => "forced rule",
        StepName::HealthCheck => "health check",
        StepName::Host => "host",
        StepName::LiveFile => "live file",
        StepName::LoadError => "load error",
        StepName::Method => "method",
        StepName::NotFoundHandler => "not_found handler",
        StepName::NotFoundPage => "404 page",
        StepName::Path => "path",
        StepName::Proxy => "proxy",
        StepName::RedirectToHttps => "redirect to HTTPS",
        StepName::Request => "request",
        StepName::Route => "route",
        StepName::Rule => "rule",
        StepName::SinglePage => "single page",
        StepName::SlashForm => "other slash form",
    }
}

fn headers(all: &Explanation, out: &mut impl Write, style: TerminalStyle) -> io::Result<()> {
    let line = |header: &HeaderShown| {
        format!("  {}: {}", shown(header.name.as_bytes()), shown(header.value.as_bytes()))
    };
    let rows: Vec<(String, String)> =
        all.headers.iter().map(|header| (line(header), source(header))).collect();
    let removed = all.removed.iter().map(|removed| {
        let line = format!("  {}: removed", shown(removed.name.as_bytes()));
        (line, shown(removed.line.to_string().as_bytes()))
    });
    let rows: Vec<(String, String)> = rows.into_iter().chain(removed).collect();
    let widths = rows.iter().map(|(line, _)| line.chars().count());
    let widest = widths.filter(|width| *width <= HEADER_WIDTH_MAX).max().unwrap_or_default();
    for (line, source) in rows {
        let width = line.chars().count().max(widest);
        let fits = width + 2 + source.chars().count() <= WIDTH;
        if fits {
            writeln!(out, "{line:widest$}  {}", style.dim(source))?;
        } else {
            writeln!(out, "{line}\n      {}", style.dim(source))?;
        }
    }
    Ok(())
}

/// Returns where a header comes from, on one line.
fn source(header: &HeaderShown) -> String {
    let places: Vec<String> =
        header.lines.iter().map(|line| shown(line.to_string().as_bytes())).collect();
    match header.source {
        HeaderSource::Rule if !places.is_empty() => places.join(", "),
        _ => printable(&header.reason),
    }
}

fn codings(all: &Explanation, out: &mut impl Write, style: TerminalStyle) -> io::Result<()> {
    if all.codings.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style.bold("Codings"))?;
    let rows: Vec<_> = all
        .codings
        .iter()
        .map(|coding| {
            let remark = match (coding.sent, coding.smallest) {
                (true, _) => "sent",
                (false, true) => "the smallest, for clients that accept it",
                (false, false) => "",
            };
            [coding.coding.to_owned(), size(coding.bytes), remark.to_owned()]
        })
        .collect();
    let lines = Columns::new([Align::Left, Align::Right, Align::Left]).lines(&rows);
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}
