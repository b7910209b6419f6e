//! Many CGI scripts, one after the other, leave nothing behind: a million of them with `cargo xtask
//! test --long`, or the number in the variable `PINION_CGI_RUNS`. They are counted and never timed.

use crate::cgi::scripts;
use crate::lua_program_faults::{children, spawner};
use crate::mounts::start;
use pinion_tests::client::Connection;
use pinion_tests::external_programs::{program, stdout};
use pinion_tests::matrix::Io;
use pinion_tests::processes::unbacked_bytes;
use pinion_tests::request::Request;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::geteuid;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Scripts that are run, half of them over each backend.
const RUNS: usize = if cfg!(feature = "long") { 1_000_000 } else { 4_000 };
/// Scripts that are run before anything is counted.
const FIRST_RUNS: usize = 1_000;
/// Clients, each with one request at a time.
const CLIENTS: usize = 4;
/// One of this number of requests has content.
const CONTENT_STEP: usize = 16;
/// One of this number of clients leaves after its request.
const LEAVING_STEP: usize = 64;
/// Scripts that run at the same time, those included whose clients have left.
const RUNNING_MAX: usize = 8;
/// The beginning of the names of the control groups that the spawner keeps for further programs.
const GROUP: &str = "pinion-programs-";
/// The memory that a process may use after the runs beyond that before them, in bytes. Allocators
/// keep less; in a million runs, five bytes of each would be more.
const MORE_MEMORY_BYTES: u64 = 4 << 20;

/// A program without libraries, which works in any root directory: it reads its input, and
/// responds.
const PROGRAM: &str = "#include <unistd.h>\n\
    static const char text[] = \"Content-Type: text/plain\\n\\nok\\n\";\n\
    int main(void) {\n\
        char input[4096];\n\
        while (read(0, input, sizeof input) > 0) {}\n\
        return write(1, text, sizeof text - 1) != sizeof text - 1;\n\
    }\n";

/// The resources of a server.
#[derive(Debug)]
struct Held {
    files: usize,
    /// Without those of control groups.
    spawner_files: usize,
    groups: usize,
    bytes: u64,
    spawner_bytes: u64,
}

impl Held {
    /// Waits until nothing runs, and looks.
    fn by(server: &Server) -> Self {
        let spawner = spawner(server);
        wait_for("the end of all scripts", || children(spawner).is_empty().then_some(()));
        let files = fs::read_dir(format!("/proc/{spawner}/fd")).expect("its files").flatten();
        let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        let is_group = |path: &PathBuf| path.to_string_lossy().contains(GROUP);
        let (groups, others): (Vec<PathBuf>, Vec<PathBuf>) = targets.partition(is_group);
        Self {
            files: server.open_files().len(),
            spawner_files: others.len(),
            groups: groups.len(),
            bytes: unbacked_bytes(server.id()),
            spawner_bytes: unbacked_bytes(spawner),
        }
    }
}

/// Makes a folder with a mount of the program; as root in a root directory of its own.
fn tiny_program() -> (Folder, String) {
    let folder = scripts("cgi-soak", &[]);
    folder.write("tiny.c", PROGRAM);
    let path = folder.join("scripts");
    let mut cc = program("cc", "gcc");
    stdout(cc.args(["-Os", "-static", "-o"]).arg(path.join("tiny")).arg(folder.join("tiny.c")));
    let user = if geteuid().is_root() { "cgi-user = \"nobody\"\n" } else { "" };
    (
        folder,
        format!("[[site.mount]]\npath = \"/run\"\ncgi = {path:?}\ncgi-max = {RUNNING_MAX}\n{user}"),
    )
}

fn runs() -> usize {
    let text = std::env::var("PINION_CGI_RUNS");
    text.map_or(RUNS, |text| text.parse().expect("PINION_CGI_RUNS is a number"))
}

fn run_scripts(server: &Server, count: usize) {
    let next = AtomicUsize::new(0);
    let client = || {
        let mut kept: Option<Connection> = None;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let mut connection = kept.take().unwrap_or_else(|| server.connect());
            if number % LEAVING_STEP == 1 {
                connection.send(Request::get("/run/tiny").bytes());
                continue;
            }
            let request = match number % CONTENT_STEP {
                0 => Request::new("POST", "/run/tiny").body(b"content"),
                _ => Request::get("/run/tiny"),
            };
            let response = connection.exchange(&request);
            assert_eq!((response.status, response.text()), (200, "ok\n"), "run {number}");
            kept = Some(connection);
        }
    };
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(client);
        }
    });
}

#[test]
fn many_scripts_leak_no_memory_files_or_cgroups() {
    let (folder, mount) = tiny_program();
    for io in Io::BOTH {
        let server = start(&folder, io, &mount);
        run_scripts(&server, FIRST_RUNS);
        let before = Held::by(&server);
        run_scripts(&server, runs() / Io::BOTH.len());
        // Connections of clients that have left close a moment later.
        wait_for("closed files", || {
            let now = Held::by(&server);
            let is_free = now.files <= before.files && now.spawner_files <= before.spawner_files;
            is_free.then_some(())
        });
        let behind = Held::by(&server);
        assert!(
            behind.groups <= 2 * RUNNING_MAX,
            "one for each program at the same time: {behind:?}"
        );
        eprintln!("{io:?}: {before:?}, and behind the runs {behind:?}");
        for (before, behind) in
            [(before.bytes, behind.bytes), (before.spawner_bytes, behind.spawner_bytes)]
        {
            assert!(behind <= before + MORE_MEMORY_BYTES, "{before} bytes, now {behind}");
        }
        server.stop();
    }
}
