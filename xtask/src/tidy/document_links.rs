//! Rule: links in documents have existing targets.

use super::Rule;
use super::project::{File, Finding, Project};

pub(super) const LINKS: Rule = Rule { name: "links", check: links, canary: dead_link };

fn links(project: &Project) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in project.files.iter().filter(|file| file.extension() == "md") {
        for (line, target) in targets(&file.text) {
            if let Some(message) = broken(project, file, target) {
                findings.push(Finding::new(file, line, message));
            }
        }
    }
    findings
}

/// Returns link targets with their lines, except in code.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let in_code = line[..at].matches('`').count() % 2 == 1;
            let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
            if !in_code {
                found.push((index + 1, target));
            }
        }
    }
    found
}

/// Returns the error of a link, if there is one.
fn broken(project: &Project, file: &File, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
    let inside = format!("{path}/");
    let exists = project.paths.iter().any(|known| *known == path || known.starts_with(&inside));
    if !exists {
        return Some(format!("the link to {target} leads nowhere"));
    }
    let aimed = project.file(&path).filter(|_| !heading.is_empty())?;
    let found =
        aimed.text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == heading);
    (!found).then(|| format!("no heading for {target}"))
}

fn resolve(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the anchor of a heading.
fn slug(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_';
    let text: String = heading.trim_start_matches('#').trim().chars().filter(kept).collect();
    text.to_lowercase().replace(' ', "-")
}

fn dead_link() -> Project {
    Project::of(&[("README.md", "See [the plan](docs/plan.md).\n")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_links_pass() {
        let text = "# Top\n[a](docs/a.md) [b](docs/a.md#the-way-of-it) [c](https://x.org)\n\
                    [d](#top) [e](docs) `[f](nowhere)`\n```\n[g](nowhere)\n```\n";
        let project = Project::of(&[
            ("README.md", text),
            ("docs/a.md", "## The way, of it\n[up](../README.md)\n"),
        ]);
        let said: Vec<_> = links(&project).iter().map(ToString::to_string).collect();
        assert_eq!(said, [""; 0]);
    }

    #[test]
    fn a_missing_heading_is_named() {
        let project = Project::of(&[("README.md", "# Top\n[a](#bottom)\n")]);
        assert_eq!(links(&project)[0].to_string(), "README.md:2: no heading for #bottom");
    }
}
