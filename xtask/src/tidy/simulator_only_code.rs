//! The parts of the simulator are compiled for tests alone: among them is a session of QUIC without
//! cryptography.

use super::Rule;
use super::project::{Finding, Project};

/// The feature that compiles them.
const FEATURE: &str = "sim";

pub(super) const SIMULATION: Rule =
    Rule { name: "simulation", check: enabled_outside_of_tests, canary: enabled_for_a_program };

/// Finds manifests that enable the feature other than for tests, or by a feature of another name.
fn enabled_outside_of_tests(project: &Project) -> Vec<Finding> {
    let is_manifest = |path: &str| path.rsplit('/').next() == Some("Cargo.toml");
    let (quoted, of_another) = (format!("\"{FEATURE}\""), format!("/{FEATURE}\""));
    let mut findings = Vec::new();
    for file in project.files.iter().filter(|file| is_manifest(&file.path)) {
        let mut section = "";
        for (line, number) in file.text.lines().zip(1..) {
            if line.starts_with('[') {
                section = line.trim();
            }
            let enables = line.contains(&quoted) || line.contains(&of_another);
            let is_for_tests = section.starts_with("[dev-dependencies");
            let has_its_name = line.split('=').next().map(str::trim) == Some(FEATURE);
            let is_passed_on = section == "[features]" && has_its_name;
            if enables && !is_for_tests && !is_passed_on {
                let message = format!(
                    "the feature `{FEATURE}` may be enabled in [dev-dependencies] only, or by a \
                     feature of the same name"
                );
                findings.push(Finding::new(file, number, message));
            }
        }
    }
    findings
}

fn enabled_for_a_program() -> Project {
    let manifest = "[features]\nsim = [\"pinion-engine/sim\"]\n\n[dependencies]\n\
                    pinion-engine = { workspace = true, features = [\"sim\"] }\n";
    Project::of(&[("crates/pinion/Cargo.toml", manifest)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_feature_is_enabled_only_for_tests() {
        for (manifest, findings) in [
            ("[features]\nsim = [\"pinion-engine/sim\"]\n", 0),
            ("[features]\nsim = []\n[dev-dependencies]\na = { features = [\"sim\"] }\n", 0),
            ("[features]\ndefault = [\"sim\"]\n", 1),
            ("[features]\nfast = [\"pinion-engine/sim\"]\n", 1),
            ("[dependencies]\na = { features = [\"fast\", \"sim\"] }\n", 1),
            ("[workspace.dependencies]\na = { features = [\"sim\"] }\n", 1),
        ] {
            let project = Project::of(&[("Cargo.toml", manifest)]);
            assert_eq!(enabled_outside_of_tests(&project).len(), findings, "{manifest}");
        }
    }
}
