//! The project's own chores. `cargo xtask help` lists them.
//!
//! | Module | Contents |
//! |---|---|
//! | `test`, `tidy` | `cargo xtask test`, the complete test run; `tidy`, the project rules |
//! | `fuzz` | `cargo xtask fuzz`, the fuzz targets |
//! | `bench` | `cargo xtask bench`, the measurements |
//! | `dist` | `cargo xtask dist`, the packages for installation |
//! | `sbom`, `program_components` | `cargo xtask sbom`; the components of the program |
//! | `generated` | `cargo xtask gen`, the generated files |
//! | `fingerprint_lists` | `cargo xtask fingerprints`, the file names of public tools |
//! | `test_dependencies` | `cargo xtask needs`, programs and files for the tests |
//! | `debian_packages`, `python_packages`, `node_packages` | their installation as packages |
//! | `cargo_programs`, `go_programs` | their installation from source |
//! | `redis_tests`, `h3i` | the tests of Redis; the tests of the errors of HTTP/3 with h3i |
//! | `nextest`, `step_times` | the test runner; the durations of the steps of a command |
//! | `process`, `workspace_paths` | runs of other programs; the paths of the source tree |
#![forbid(unsafe_code)]

mod bench;
mod cargo_programs;
mod debian_packages;
mod dist;
mod fingerprint_lists;
mod fuzz;
mod generated;
mod go_programs;
mod h3i;
mod nextest;
mod node_packages;
mod process;
mod program_components;
mod python_packages;
mod redis_tests;
mod sbom;
mod step_times;
mod test;
mod test_dependencies;
mod tidy;
mod workspace_paths;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test                            everything that must be green, in order
cargo xtask test --quick                    the tests of what has changed, in a few minutes
cargo xtask test --long | --only STEP       more cases and more time; one step alone
cargo xtask needs                           installs what the tests use
cargo xtask tidy                            the house rules that no compiler checks
cargo xtask tidy --report                   how the files of each crate depend on one another
cargo xtask fuzz [TARGET] [--seconds N]     the fuzz targets, each for a bounded time
cargo xtask dist [--static]                 a package to install from, in target/packages/
cargo xtask gen [--check]                   writes or checks all generated files
cargo xtask fingerprints                    renews the lists of what public tools write
cargo xtask sbom                            renews the list of what the program is made of
cargo xtask bench BENCH [OPTIONS]           measurements against goals, kept in bench/runs/
cargo xtask help                            this text";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] | ["help" | "--help" | "-h", ..] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        ["test", rest @ ..] => test::run(rest),
        ["needs"] => test_dependencies::run(),
        ["tidy"] => tidy::run(),
        ["tidy", "--report"] => tidy::report(),
        ["dist", rest @ ..] => dist::run(rest),
        ["fingerprints"] => fingerprint_lists::renew(),
        ["gen", rest @ ..] => generated::run(rest),
        ["sbom"] => sbom::run(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["bench", rest @ ..] => bench::run(rest),
        _ => {
            eprintln!("xtask: not a chore: {}\n\n{HELP}", words.join(" "));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
