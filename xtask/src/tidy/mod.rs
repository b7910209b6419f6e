//! `cargo xtask tidy`: the project rules that neither rustfmt nor clippy checks.
//!
//! A rule is one row of [`RULES`]. It checks the whole project and reports violations. Each rule
//! has a canary, a tiny project that breaks only this rule; a rule that does not find it is itself
//! broken, and every run checks that first.
//!
//! | Module | Contents |
//! |---|---|
//! | `project` | the text files and packages of the tree |
//! | `rust_source` | a Rust file split into code and text |
//! | `crate_layers` | the layers of the crates |
//! | `module_tables` | the tables of modules at the head of files |
//! | `engine_layers` | the layers of the engine |
//! | `file_cycles` | circles between files of a crate |
//! | `orphans` | unused Rust files |
//! | `file_names` | the names of files |
//! | `size_limits` | the sizes of lines, files and functions |
//! | `unsafe_code`, `simulator_only_code` | `unsafe` code; code of the simulator in other places |
//! | `required_comments` | required comments |
//! | `comment_extraction` | the comments of Rust, Lua, Python and shell files |
//! | `forbidden_phrases` | plain English |
//! | `language_metrics` | a measurement of comments and names |
//! | `document_links` | links in documents |
//! | `document_file_references` | paths in documents |
//! | `decision_index` | the index of the decisions |

mod comment_extraction;
mod crate_layers;
mod decision_index;
mod document_file_references;
mod document_links;
mod engine_layers;
mod file_cycles;
mod file_names;
mod forbidden_phrases;
mod language_metrics;
mod module_tables;
mod orphans;
mod project;
mod required_comments;
mod rust_source;
mod simulator_only_code;
mod size_limits;
mod unsafe_code;

use crate::workspace_paths;
use anyhow::{Result, bail};
use project::{Finding, Project};

/// One project rule.
struct Rule {
    /// A short name, printed with each finding.
    name: &'static str,
    check: fn(&Project) -> Vec<Finding>,
    /// Returns a project that breaks this rule.
    canary: fn() -> Project,
}

const RULES: &[Rule] = &[
    crate_layers::IMPORTS,
    crate_layers::SYSTEMS,
    crate_layers::MAPS,
    crate_layers::MODULES,
    module_tables::MODULE_TABLES,
    engine_layers::LAYERS,
    engine_layers::EVENT_CALLS,
    engine_layers::CLOCK,
    file_cycles::CYCLES,
    unsafe_code::HOMES,
    unsafe_code::ARGUMENTS,
    simulator_only_code::SIMULATION,
    size_limits::WIDTH,
    size_limits::FILES,
    size_limits::FUNCTIONS,
    required_comments::LEFTOVERS,
    required_comments::LIMITS,
    required_comments::OPENINGS,
    required_comments::EXCUSES,
    orphans::ORPHANS,
    file_names::VAGUE,
    language_metrics::TYPE_NAMES,
    document_links::LINKS,
    document_file_references::NAMED_PATHS,
    document_file_references::OUTSIDE_DOCUMENTS,
    decision_index::DECISIONS,
    forbidden_phrases::PHRASES,
];

/// Checks the source tree from which this program was built.
pub(crate) fn run() -> Result<()> {
    for rule in RULES {
        if (rule.check)(&(rule.canary)()).is_empty() {
            bail!("the rule `{}` does not find its own canary", rule.name);
        }
    }
    let project = Project::read(&workspace_paths::root())?;
    let mut findings = 0;
    for rule in RULES {
        for finding in (rule.check)(&project) {
            eprintln!("{finding} [{}]", rule.name);
            findings += 1;
        }
    }
    if findings > 0 {
        bail!("{findings} untidy");
    }
    println!("tidy: {} files, {} rules", project.files.len(), RULES.len());
    Ok(())
}

/// Prints the largest cycle of files that depend on each other, for each crate, and figures about
/// the language of the code.
pub(crate) fn report() -> Result<()> {
    let project = Project::read(&workspace_paths::root())?;
    println!("largest cycle of files that depend on each other:");
    for circle in file_cycles::largest(&project) {
        match circle.modules.len() {
            0 | 1 => println!("{:>4}  {}", "none", circle.krate),
            files => println!("{files:>4}  {}: {}", circle.krate, circle.modules.join(", ")),
        }
    }
    print!("{}", language_metrics::Language::of(&project).report());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_each_rule_breaks_only_that_rule() {
        for canary in RULES {
            for rule in RULES {
                let found = (rule.check)(&(canary.canary)());
                let said: Vec<String> = found.iter().map(ToString::to_string).collect();
                let own = rule.name == canary.name;
                assert_eq!(!said.is_empty(), own, "{} on {}: {said:?}", rule.name, canary.name);
            }
        }
    }

    #[test]
    fn names_of_rules_are_unique() {
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }
}
