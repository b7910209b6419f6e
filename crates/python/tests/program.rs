//! Runs the tests of the program, which are written in Python (`tests/python`), with each
//! interpreter: `python3`, `pypy3`, and those that `PINION_PYTHONS` names, separated by colons.
//! One that is missing fails.

use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

/// The interpreters that are always there (`cargo xtask needs`). The path is that of Debian: a
/// virtual environment that is active is no other interpreter.
const INTERPRETERS: [&str; 2] = ["/usr/bin/python3", "/usr/bin/pypy3"];

fn run(module: &str) {
    let folder = env::temp_dir().join(format!("pinion-program-{module}-{}", process::id()));
    fs::create_dir(&folder).expect("a folder for the program");
    let program = folder.join("program.py");
    fs::write(&program, pinion_python::program::program()).expect("the program in a file");
    let more = env::var("PINION_PYTHONS").unwrap_or_default();
    let more = more.split(':').filter(|path| !path.is_empty());
    for interpreter in INTERPRETERS.into_iter().chain(more) {
        run_with(interpreter, module, &program);
    }
    fs::remove_dir_all(folder).expect("the folder is removed");
}

fn run_with(interpreter: &str, module: &str, program: &Path) {
    let output = Command::new(interpreter)
        .args(["-W", "error", "-m", "unittest", module])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python"))
        .env("PINION_PYTHON_PROGRAM", program)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap_or_else(|error| {
            panic!("cannot run {interpreter} ({error}): install it with `cargo xtask needs`")
        });
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{module} with {interpreter}: {}\n{text}", output.status);
    // A module without tests is a success for unittest.
    assert!(text.contains("\nOK") && !text.contains("Ran 0 tests"), "{interpreter}: {text}");
    assert!(!text.contains("skipped="), "{module} with {interpreter} skips tests: {text}");
}

#[test]
fn python_tests_of_loading_pass() {
    run("test_loading");
}

#[test]
fn python_tests_of_interfaces_pass() {
    run("test_interface");
}

#[test]
fn python_tests_of_request_ids_pass() {
    run("test_request_ids");
}

#[test]
fn python_tests_of_wsgi_pass() {
    run("test_wsgi");
}

#[test]
fn python_tests_of_content_pass() {
    run("test_content");
}

#[test]
fn python_tests_of_flow_control_pass() {
    run("test_flow");
}

#[test]
fn python_tests_of_processes_pass() {
    run("test_process");
}

#[test]
fn python_tests_of_asgi_pass() {
    run("test_asgi");
}

#[test]
fn python_tests_of_asgi_processes_pass() {
    run("test_asgi_process");
}

#[test]
fn python_tests_of_websockets_pass() {
    run("test_asgi_websocket");
}

#[test]
fn python_tests_of_asgi_flow_control_pass() {
    run("test_asgi_flow");
}

#[test]
fn python_tests_of_fapws_pass() {
    run("test_fapws");
}

#[test]
fn python_tests_of_fapws_jobs_pass() {
    run("test_fapws_jobs");
}

#[test]
fn python_tests_of_files_pass() {
    run("test_files");
}
