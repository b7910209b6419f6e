//! The promise of `--json`: stdout is exactly one JSON document in every case. A verb that succeeds
//! writes its own; this module writes the document of a run that failed.

use crate::control::protocol::ServerCommand;
use crate::failure::Failure;
use crate::served_source::CONFIGURATION;
use crate::settings::Settings;
use pinion_builder::{CodeError, FileProblem, RuleError};
use serde_json::{Map, Value, json};
use std::io::{self, Write as _};
use std::path::Path;

/// The facts about a run that are known before it begins: the members that its document has even if
/// it fails.
#[derive(Debug, Default)]
pub(crate) struct KnownMembers(Map<String, Value>);

impl KnownMembers {
    /// Returns the members of a verb; `None` if it was not asked for JSON.
    pub(crate) fn about(settings: &Settings) -> Option<Self> {
        let members = match settings {
            Settings::Build(build) if build.json => {
                json!({"archive": text(&build.output), "problems": []})
            }
            Settings::Cat(cat) if cat.json => json!({"archive": text(&cat.file)}),
            Settings::Check(check) if check.json => {
                let config = check.path.as_deref().unwrap_or(Path::new(CONFIGURATION));
                json!({"config": text(config), "faults": []})
            }
            Settings::Control(control) if control.json => match control.command {
                ServerCommand::Status => json!({"servers": []}),
                _ => json!({"messages": []}),
            },
            Settings::Diff(diff) if diff.json => {
                json!({"before": text(&diff.before), "after": text(&diff.after)})
            }
            Settings::Extract(extract) if extract.json => {
                json!({"archive": text(&extract.file), "folder": text(&extract.output)})
            }
            Settings::Import(import) if import.json => {
                let kind = if import.is_configuration() { "config" } else { "archive" };
                let mut members = json!({"imported": text(&import.file)});
                if let Some(output) = import.output() {
                    members[kind] = text(output).into();
                }
                members
            }
            Settings::Inspect(look) | Settings::Ls(look) if look.json => {
                json!({"archive": text(&look.file)})
            }
            Settings::Publish(publish) if publish.json => {
                json!({"archive": text(&publish.file), "folder": publish.folder.text()})
            }
            Settings::Releases(releases) if releases.json => {
                json!({"folder": releases.folder.text()})
            }
            Settings::Rollback(rollback) if rollback.json => {
                json!({"folder": rollback.folder.text()})
            }
            Settings::Verify(look) if look.json => {
                json!({"archive": text(&look.file), "sound": false})
            }
            Settings::Version { json: true, .. } => json!({}),
            Settings::Why(why) if why.json => json!({"version": 1, "method": why.method}),
            _ => return None,
        };
        match members {
            Value::Object(members) => Some(Self(members)),
            _ => None,
        }
    }

    /// Writes the document of a failure to stdout, unless the verb has written one already.
    pub(crate) fn write(mut self, failure: &Failure) {
        let Some(reason) = failure.reason() else { return };
        self.0.insert("error".to_owned(), reason.into());
        if let Failure::UnusableFiles(found) | Failure::UnreadableRules(found) = failure {
            self.0.insert("problems".to_owned(), problems(found).into());
        }
        if let Failure::InvalidRules(errors) = failure {
            let error = |error: &RuleError| {
                json!({
                    "file": text(&error.file),
                    "line": error.line,
                    "column": error.column,
                    "expected": error.expected,
                })
            };
            self.0.insert("rule_errors".to_owned(), errors.iter().map(error).collect());
        }
        if let Failure::InvalidCode(errors) = failure {
            let error = |error: &CodeError| {
                let file = text(&error.file);
                json!({"file": file, "line": error.line, "message": error.message})
            };
            self.0.insert("code_errors".to_owned(), errors.iter().map(error).collect());
        }
        // The failure is reported on stderr too; an error of stdout is not a further failure.
        let _ = writeln!(io::stdout().lock(), "{}", Value::Object(self.0));
    }
}

/// Returns the files that cannot become resources.
pub(crate) fn problems(problems: &[FileProblem]) -> Vec<Value> {
    let value = |problem: &FileProblem| {
        let reason = problem.reason.to_string();
        json!({"path": text(&problem.path), "reason": reason})
    };
    problems.iter().map(value).collect()
}

/// Returns the path as text. JSON is Unicode; bytes that are not become U+FFFD.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
