//! The folders of results: `bench/runs/DATE-NAME/`, with `report.md` to read and `data.json`.
//!
//! A run is a set of parts, each with the commit it measured. A part that is measured again on the
//! same day under the same name replaces the older one and leaves the others, so a run can be
//! taken in pieces.

use super::machine_info;
use crate::workspace_paths;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of a run and its current data.
pub(crate) struct Run {
    folder: PathBuf,
    /// `{"machine": …, "parts": [{"name", "commit", "report", "data"}, …]}`
    data: Value,
}

impl Run {
    /// Opens today's run under `name`, or under the host's name; an existing run is continued.
    pub(crate) fn open(name: Option<&str>) -> Result<Self> {
        let name = name.map_or_else(machine_info::host, |name| Ok(name.to_owned()))?;
        if name.is_empty()
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        {
            bail!("a run's name is made of letters, digits, '-', '_' and '.': {name}");
        }
        let folder = workspace_paths::root()
            .join("bench/runs")
            .join(format!("{}-{name}", machine_info::today()?));
        let mut run = Self::load(&folder)?;
        for (name, fact) in machine_info::facts()?.as_object().into_iter().flatten() {
            run.data["machine"][name] = fact.clone();
        }
        Ok(run)
    }

    /// Stores one part: Markdown for the reader and all figures of it. The title is its first
    /// heading and its name in the data.
    pub(crate) fn record(&mut self, name: &str, report: &str, data: &Value) -> Result<()> {
        let part = json!({
            "name": name, "commit": machine_info::commit()?, "report": report, "data": data,
        });
        let parts = self.data["parts"].as_array_mut().context("data.json: parts is no list")?;
        match parts.iter_mut().find(|old| old["name"] == name) {
            Some(old) => *old = part,
            None => parts.push(part),
        }
        self.write()
    }

    /// Adds a fact about the conditions of the run; the same name again replaces the value.
    pub(crate) fn note(&mut self, name: &str, value: &str) {
        self.data["machine"][name] = json!(value);
    }

    /// Returns the folder, relative to the root of the tree.
    pub(crate) fn shown(&self) -> String {
        let root = workspace_paths::root();
        self.folder.strip_prefix(root).unwrap_or(&self.folder).display().to_string()
    }

    fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("data.json");
        let data = if path.exists() {
            serde_json::from_str(&fs::read_to_string(&path)?)
                .with_context(|| path.display().to_string())?
        } else {
            json!({ "machine": {}, "parts": [] })
        };
        Ok(Self { folder: folder.to_path_buf(), data })
    }

    fn write(&self) -> Result<()> {
        fs::create_dir_all(&self.folder)?;
        fs::write(self.folder.join("data.json"), format!("{:#}\n", self.data))?;
        fs::write(self.folder.join("report.md"), self.report())?;
        Ok(())
    }

    fn report(&self) -> String {
        let mut text = String::from("# Report\n\nWritten by `cargo xtask bench`.\n\n");
        for (name, value) in self.data["machine"].as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ = writeln!(text, "- {}: {value}", name.replace('_', " "));
        }
        for part in self.data["parts"].as_array().into_iter().flatten() {
            let shown = |key: &str| part[key].as_str().unwrap_or_default().trim_end().to_owned();
            let (name, commit, report) = (shown("name"), shown("commit"), shown("report"));
            let _ = write!(text, "\n## {name}\n\nCommit {commit}.\n\n{report}\n");
        }
        wrapped(&text)
    }
}

/// Returns the text with its paragraphs in lines of at most 100 characters, as `xtask tidy` wants
/// them. Rows of tables stay whole.
fn wrapped(text: &str) -> String {
    const LINE_CHARACTERS: usize = 100;
    let mut lines = String::with_capacity(text.len());
    for line in text.lines() {
        let mut room = LINE_CHARACTERS;
        let words = if line.starts_with('|') { vec![line] } else { line.split(' ').collect() };
        for (number, word) in words.into_iter().enumerate() {
            let length = word.chars().count();
            if number > 0 {
                let fits = length < room;
                lines.push(if fits { ' ' } else { '\n' });
                room = if fits { room - 1 } else { LINE_CHARACTERS };
            }
            lines.push_str(word);
            room = room.saturating_sub(length);
        }
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_part_replaces_the_older_one_in_the_report() {
        let folder = std::env::temp_dir().join(format!("pinion-runs-{}", std::process::id()));
        for (name, report) in [("first", "old"), ("second", "other"), ("first", "new")] {
            let mut run = Run::load(&folder).unwrap();
            run.record(name, report, &json!({ "is": report })).unwrap();
        }
        let report = fs::read_to_string(folder.join("report.md")).unwrap();
        let order: Vec<&str> = report.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(order, ["## first", "## second"]);
        assert!(report.contains("new") && !report.contains("old"), "{report}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn paragraphs_are_wrapped_and_tables_are_not() {
        let (word, row) = ("seventh", format!("|{}|", " x |".repeat(40)));
        let text = wrapped(&format!("# Title\n\n{}\n{row}\n", vec![word; 25].join(" ")));
        let lengths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(lengths, [7, 0, 95, 95, 7, row.chars().count()]);
        let exactly = ["a".repeat(60), "b".repeat(39), "c".to_owned()].join(" ");
        let lengths: Vec<usize> = wrapped(&exactly).lines().map(str::len).collect();
        assert_eq!(lengths, [100, 1]);
    }
}
