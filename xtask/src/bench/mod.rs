//! `cargo xtask bench`: measurements against goals, kept in `bench/runs/`.
//!
//! Each bench measures one or more named parts and records them with [`runs::Run`], which writes
//! the readable report and its data.
//!
//! | Module | Contents |
//! |---|---|
//! | `load` | the cost of a response |
//! | `gateways` | the cost of files, CGI scripts and applications, compared with other servers |
//! | `build` | the cost of a build |
//! | `archive_scale` | the cost of an archive of very many files |
//! | `release_switch_time` | the time until clients get another release |
//! | `upload` | the speed of uploads over a path with a round trip of 100 ms |
//! | `network_paths` | files over long paths |
//! | `abuse` | the effect of abuse on the response times of other clients |
//! | `test_times` | the time of the tests |
//! | `peers` | the current releases of the compared servers |
//! | `runs` | the folders of results |
//! | `figure_table` | single figures with their goals, as a table |
//! | `statistics` | the statistics of figures of several rounds |
//! | `machine_info`, `release_binary` | the machine of a measurement, and the measured binary |
//! | `started_server` | a server that was just started |
//! | `process_cost` | the cost of a program that runs to its end |
//! | `sample_sites` | sites for benches |
//! | `delayed_network` | a long path between two network namespaces |

mod abuse;
mod archive_scale;
mod build;
mod delayed_network;
mod figure_table;
mod gateways;
mod load;
mod machine_info;
mod network_paths;
mod peers;
mod process_cost;
mod release_binary;
mod release_switch_time;
mod runs;
mod sample_sites;
mod started_server;
mod statistics;
mod test_times;
mod upload;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: cargo xtask bench abuse|build|gateways|load|machine|paths|peers|releases|scale|tests|upload
  abuse     how long a client waits while another one abuses the server
  build     what a build and a rebuild cost, beside kawipiko's archiver
  gateways  files, CGI scripts and FastCGI, beside nginx, fcgiwrap and a bare loop
  load      what an answer costs, beside the bare loops and other servers
  machine   what this machine is, as a run's data notes it
  paths     how fast files come over paths with a round trip, a rate and loss, beside others
  peers     installs current releases of other servers and prints their versions
  releases  how long it takes until clients get another release
  scale     what an archive of a million files takes, and how soon servers answer after a start
  tests     how long the tests take: in a fresh clone, once built, after a change in one crate
  upload    how fast content is sent over a path with a round trip of 100 ms";

/// Runs the bench that `arguments` name.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    match arguments {
        ["abuse", rest @ ..] => abuse::run(rest),
        ["build", rest @ ..] => build::run(rest),
        ["gateways", rest @ ..] => gateways::run(rest),
        ["load", rest @ ..] => load::run(rest),
        ["paths", rest @ ..] => network_paths::run(rest),
        ["peers", rest @ ..] => peers::run(rest),
        ["releases", rest @ ..] => release_switch_time::run(rest),
        ["scale", rest @ ..] => archive_scale::run(rest),
        ["tests", rest @ ..] => test_times::run(rest),
        ["upload", rest @ ..] => upload::run(rest),
        ["machine"] => {
            println!("{:#}", machine_info::facts()?);
            Ok(())
        }
        _ => bail!("{USAGE}"),
    }
}

/// Returns the options of a bench that has no others: its number of rounds, or `rounds`, and its
/// name.
fn rounds_and_name<'w>(
    arguments: &[&'w str],
    mut rounds: usize,
    usage: &str,
) -> Result<(usize, Option<&'w str>)> {
    let mut name = None;
    for pair in arguments.chunks(2) {
        match pair {
            ["--rounds", count] => {
                let count = count.parse().ok().filter(|&count| count > 0);
                rounds = count.with_context(|| format!("not a count\n{usage}"))?;
            }
            ["--name", value] => name = Some(*value),
            _ => bail!("{usage}"),
        }
    }
    Ok((rounds, name))
}

#[cfg(test)]
mod tests {
    use super::rounds_and_name;

    #[test]
    fn invalid_options_of_the_bench_are_refused() {
        let read = |words: &'static [&str]| rounds_and_name(words, 15, "usage").ok();
        assert_eq!(read(&["--rounds", "3", "--name", "x"]), Some((3, Some("x"))));
        assert_eq!(read(&[]), Some((15, None)));
        assert_eq!(read(&["--rounds", "0"]).or(read(&["--rounds"])), None);
    }
}
