//! The spawner with real programs.
//!
//! A process forks the spawner before it has threads, so these tests have a main function of their
//! own instead of the harness of the standard library, which runs tests on threads. It accepts the
//! arguments of cargo and nextest; each test is a process of its own.

mod cgi_scripts;
mod compromised_workers;
mod descendants;
mod faults;
mod killed_server;
mod process_observer;
mod program_ends;
mod standard_error;
mod starts;
mod test_server;

use std::process::{Command, ExitCode};
use std::{env, panic};

/// A test: its name and its function.
type Test = (&'static str, fn());

/// A program of a test, with its arguments.
type Scenario = (&'static str, fn(&[String]));

/// Names functions of a module as tests.
macro_rules! tests {
    ($($module:ident: $($name:ident),+;)+) => {
        &[$($((concat!(stringify!($module), "::", stringify!($name)), $module::$name)),+),+]
    };
}

const TESTS: &[Test] = tests! {
    starts: programs_talk_over_their_sockets, a_process_begins_clean, the_environment_is_complete,
        settings_of_the_row_hold, another_user_has_no_way_back, a_root_directory_is_a_root,
        the_spawner_is_small_and_visible, tables_are_replaced, kept_rows_are_not_checked_again,
        a_late_answer_is_not_that_of_a_later_table, supervised_programs_have_no_sockets,
        a_supervised_program_has_a_listening_socket;
    cgi_scripts: a_script_has_its_folder_and_its_variables, workers_set_no_other_variables,
        a_script_without_input_can_close_its_output,
        nothing_outside_of_the_folder_is_executed, failures_of_scripts_name_their_stage,
        a_script_runs_in_its_root_directory_as_its_user, scripts_are_for_rows_of_cgi;
    program_ends: every_end_is_reported, a_program_that_ignores_sigterm_is_killed,
        a_program_that_obeys_is_not_killed, signals_reach_the_main_process,
        programs_of_a_closed_connection_are_stopped, stopping_ends_all, many_runs_leave_nothing;
    descendants: children_end_with_their_program, daemons_end_with_their_program,
        daemons_without_an_environment_end, daemons_of_other_programs_stay,
        daemons_that_are_being_executed_stay, programs_that_fork_without_end_end,
        nothing_is_left_beside_other_programs, daemons_of_other_users_stay;
    standard_error: lines_have_name_and_process, a_flood_is_bounded_and_blocks_nothing,
        a_pipe_that_is_not_read_blocks_nothing, a_socket_that_is_not_read_blocks_nothing;
    compromised_workers: malformed_requests_close_one_connection, wrong_requests_are_rejected,
        surplus_descriptors_are_closed, a_worker_that_does_not_read_blocks_no_other,
        running_programs_are_bounded, supervised_programs_have_their_places,
        connections_are_bounded;
    faults: failures_name_their_stage, a_lack_of_descriptors_is_reported,
        a_lack_of_processes_is_reported, cgroups_that_kill_are_not_used, refused_calls_are_reported,
        a_server_without_calls_is_refused;
    killed_server: killed_servers_leave_nothing, killed_spawners_leave_nothing,
        signals_do_not_end_it,
        a_spawner_that_hangs_blocks_no_connection;
};

/// Programs that tests run in processes of their own: servers that are killed, or that lack system
/// calls.
const SCENARIOS: &[Scenario] =
    &[("serve", killed_server::serve), ("fork", faults::try_fork), ("start", faults::try_start)];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["scenario", name, ..] => {
            let scenario = SCENARIOS.iter().find(|(known, _)| known == name);
            scenario.expect("a known scenario").1(&arguments[2..]);
            ExitCode::SUCCESS
        }
        words if words.contains(&"--list") => {
            if !words.contains(&"--ignored") {
                TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
            }
            ExitCode::SUCCESS
        }
        words if words.contains(&"--exact") => {
            let test = TESTS.iter().find(|(name, _)| words.contains(name));
            run_here(test.expect("a known test"))
        }
        words => {
            let filter = words.iter().find(|word| !word.starts_with('-')).unwrap_or(&"");
            run_each(filter)
        }
    }
}

/// Runs a test in this process.
fn run_here((name, test): &Test) -> ExitCode {
    if let Err(panicked) = panic::catch_unwind(test) {
        test_server::print_log(name);
        drop(panicked);
        return ExitCode::FAILURE;
    }
    test_server::remove_log();
    ExitCode::SUCCESS
}

/// Runs the tests whose names contain a text, each in a process.
fn run_each(filter: &str) -> ExitCode {
    let mut failed = 0;
    for (name, _) in TESTS.iter().filter(|(name, _)| name.contains(filter)) {
        let program = env::current_exe().expect("a path");
        let status = Command::new(program).args(["--exact", name]).status().expect("it runs");
        println!("test {name} ... {}", if status.success() { "ok" } else { "FAILED" });
        failed += u32::from(!status.success());
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
