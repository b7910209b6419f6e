//! `cargo xtask tidy`: the project rules that neither rustfmt nor clippy checks.
//!
//! A rule is one row of [`RULES`]. It checks the whole project and reports violations. Each rule
//! has a canary, a tiny project that breaks only this rule; a rule that does not find it is itself
//! broken, and every run checks that first.
//!
//! | Module | Contents |
//! |---|---|
//! | `project` | the text files and packages of the tree |
//! | `source` | a Rust file split into code and text |
//! | `crates` | the layers of the crates |
//! | `layers` | the layers of the engine |
//! | `cycles` | circles between files of a crate |
//! | `orphans` | unused Rust files |
//! | `names` | the names of files |
//! | `size` | the sizes of lines, files and functions |
//! | `safety`, `simulation` | `unsafe` code; parts of the simulator that only tests may contain |
//! | `notes` | required comments |
//! | `phrases` | plain English |
//! | `language` | a measurement of comments and names |
//! | `links` | links in documents |
//! | `paths` | paths in documents |
//! | `decisions` | the index of the decisions |

mod crates;
mod cycles;
mod decisions;
mod language;
mod layers;
mod links;
mod names;
mod notes;
mod orphans;
mod paths;
mod phrases;
mod project;
mod safety;
mod simulation;
mod size;
mod source;

use crate::workspace;
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
    crates::IMPORTS,
    crates::SYSTEMS,
    crates::MAPS,
    crates::MODULES,
    layers::LAYERS,
    layers::EVENT_CALLS,
    layers::CLOCK,
    cycles::CYCLES,
    safety::HOMES,
    safety::ARGUMENTS,
    simulation::SIMULATION,
    size::WIDTH,
    size::FILES,
    size::FUNCTIONS,
    notes::LEFTOVERS,
    notes::LIMITS,
    notes::OPENINGS,
    notes::EXCUSES,
    orphans::ORPHANS,
    names::VAGUE,
    language::TYPE_NAMES,
    links::LINKS,
    paths::NAMED_PATHS,
    paths::OUTSIDE_DOCUMENTS,
    decisions::DECISIONS,
    phrases::PHRASES,
];

/// Checks the source tree from which this program was built.
pub(crate) fn run() -> Result<()> {
    for rule in RULES {
        if (rule.check)(&(rule.canary)()).is_empty() {
            bail!("the rule `{}` does not find its own canary", rule.name);
        }
    }
    let project = Project::read(&workspace::root())?;
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
    let project = Project::read(&workspace::root())?;
    println!("largest cycle of files that depend on each other:");
    for circle in cycles::largest(&project) {
        match circle.modules.len() {
            0 | 1 => println!("{:>4}  {}", "none", circle.krate),
            files => println!("{files:>4}  {}: {}", circle.krate, circle.modules.join(", ")),
        }
    }
    print!("{}", language::Language::of(&project).report());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_canary_breaks_its_own_rule_and_no_other() {
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
    fn names_are_unique() {
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }
}
