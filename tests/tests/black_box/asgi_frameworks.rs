//! ASGI frameworks behave as in gunicorn's compatibility tests: an application of each (Django with
//! Channels, FastAPI, Starlette, Quart, Litestar, BlackSheep), and the same checks for all.
//!
//! The applications and the checks are those of gunicorn's sources, served by Pinion.

use pinion_tests::external_programs::{
    output, output_within, python_package, python_program, python_source,
};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{PATIENCE, wait_for};
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const FRAMEWORKS: [(&str, &str); 6] = [
    ("django", "asgi:application"),
    ("fastapi", "app:app"),
    ("starlette", "app:app"),
    ("quart", "app:app"),
    ("litestar", "app:app"),
    ("blacksheep", "app:app"),
];

/// Checks for each framework.
const CHECKS: usize = 74;

/// The skipped check, which does not pass with gunicorn either: an application responds with the
/// status 100, which is no status of a response.
const SKIPPED: &str = "HTTP 100 Continue cannot be a final response per RFC 7231";

/// A plugin that sets the ports of the applications, which are fixed in the suite.
const PORTS: &str = "
import os, sys

def pytest_collection():
    for pair in os.environ['GRID_PORTS'].split():
        name, port = pair.split('=')
        sys.modules['conftest'].FRAMEWORKS[name]['port'] = int(port)
";

const BACKGROUND: &str = r#"
import asyncio
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.responses import PlainTextResponse
from starlette.routing import Route
event, finished = asyncio.Event(), []
async def task():
    await event.wait()
    finished.append(True)
async def start(request):
    return PlainTextResponse('started', background=BackgroundTask(task))
async def finish(request):
    event.set()
    return PlainTextResponse('%d finished' % len(finished))
app = Starlette(routes=[Route('/start', start), Route('/finish', finish)])
"#;

/// Copies a file, or a folder with its contents.
fn copy(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    assert!(output(copy.arg("-r").arg(from).arg(to)).status.success(), "{}", from.display());
}

/// Creates a folder that other users may read, with a virtual environment that has all packages.
fn folder_with_environment(name: &str) -> Folder {
    let folder = Folder::new(name);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    let mut venv = Command::new("/usr/bin/python3");
    venv.args(["-m", "venv", "--without-pip"]).arg(folder.join("venv"));
    assert!(output(&mut venv).status.success());
    let library = fs::read_dir(folder.join("venv/lib")).expect("a library").next();
    let library = library.expect("one of a version").expect("it is read").path();
    copy(&python_package("."), &library.join("site-packages"));
    folder
}

fn serve(folder: &Folder, code: &str, application: &str) -> Server {
    let user: &[&str] = if geteuid().is_root() { &["--python-user", "nobody"] } else { &[] };
    let path = |name: &str| folder.join(name).display().to_string();
    let (python, code) = (path("venv"), path(code));
    Start::serve(&["--asgi", application, "--python-folder", &code, "--python", &python])
        .flags(user)
        .start()
}

/// gunicorn's own result is 438 of 444, including skipped checks.
#[test]
fn every_check_passes_with_every_framework() {
    let folder = folder_with_environment("asgi-frameworks");
    let suite = python_source("gunicorn").join("tests/docker/asgi_framework_compat");
    copy(&suite, &folder.join("grid"));
    folder.write("plugin/grid_ports.py", PORTS);
    let serve = |(name, application): (&str, &str)| {
        (name.to_owned(), serve(&folder, &format!("grid/frameworks/{name}_app"), application))
    };
    let servers = FRAMEWORKS.map(serve);
    let ports = servers.iter().map(|(name, server)| format!("{name}={} ", server.address().port()));
    let mut pytest = python_program("python");
    pytest.args(["-m", "pytest", "-p", "grid_ports", "-p", "no:cacheprovider", "-q", "-rsfE"]);
    // This module measures times; the next test uses no clock.
    pytest.args(["--skip-docker-check", "--ignore", "tests/test_background_tasks.py", "tests"]);
    pytest.current_dir(folder.join("grid")).env("PYTHONPATH", folder.join("plugin"));
    pytest.env("GRID_PORTS", ports.collect::<String>());
    let output = output_within(&mut pytest, 4 * PATIENCE);
    let text = String::from_utf8_lossy(&output.stdout);
    let all = FRAMEWORKS.len() * CHECKS;
    let (passed, skipped) = (all - FRAMEWORKS.len(), FRAMEWORKS.len());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains(&format!("\n{passed} passed, {skipped} skipped in")),
        "not {passed} of {all}:\n{text}\n{complaint}"
    );
    let skips = text.lines().filter(|line| line.starts_with("SKIPPED"));
    let skips: Vec<_> = skips.collect();
    assert!(skips.len() == 1 && skips[0].ends_with(SKIPPED), "{skips:?}");
    for (name, server) in servers {
        let failures = server.last_words().join("\n");
        assert!(!failures.contains("the application has failed"), "{name}: {failures}");
    }
}

/// A task that runs after the response does not delay its connection.
#[test]
fn the_next_request_does_not_wait_for_a_background_task() {
    let folder = folder_with_environment("asgi-background");
    folder.write("app/main.py", BACKGROUND);
    let server = serve(&folder, "app", "main:app");
    let mut connection = server.connect();
    for (path, expected) in [("/start", "started"), ("/finish", "0 finished")] {
        assert_eq!(connection.exchange(&Request::get(path)).text(), expected);
    }
    wait_for("the task", || (server.get("/finish").text() == "1 finished").then_some(()));
    server.stop();
}
