//! A server that the kernel confines, by the settings of the units in `packaging/` and by settings
//! that an operator may add: it serves static sites and scripts alike, and reports each missing
//! right in one line.

use pinion_tests::binary::source_root;
use pinion_tests::client::Connection;
use pinion_tests::external_programs::{output, program, stdout};
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::seccomp::{Denial, refusing};
use pinion_tests::server::{Server, Start, run};
use pinion_tests::systemd_units::{refused_calls, settings};
use pinion_tests::temporary_folder::Folder;
use rustix::io::Errno;
use std::fs;
use std::process::Command;

/// Requests to each site: far more than LuaJIT needs to compile their code.
const REQUESTS: usize = 2_000;

/// The beginning of the line about missing executable memory.
const NO_JIT: &str = "pinion: executable memory is not available (";

/// Loops, strings and tables, as LuaJIT compiles them.
const HOT: &str = r#"
local function sum(count)
    local all = 0
    for at = 1, count do all = all + at % 7 end
    return all
end
pinion.get("/", function(req)
    local words = {}
    for at = 1, 50 do words[#words + 1] = ("%d"):format(at * 3) end
    return sum(1000) .. " " .. #table.concat(words, ",")
end)
"#;

/// Returns a command that executes its further arguments with the restrictions of the unit: without
/// most system calls, capabilities and new privileges, and with a private folder for temporary
/// files. In addition, it can deny executable memory.
fn confined(denial: Option<Denial>, tmp: &Folder) -> Command {
    confined_by(&unit("pinion.service"), denial, tmp)
}

fn unit(name: &str) -> String {
    fs::read_to_string(source_root().join("packaging").join(name)).expect("a unit")
}

/// Does the same as [`confined`], for this unit.
fn confined_by(unit: &str, denial: Option<Denial>, tmp: &Folder) -> Command {
    let refused = refused_calls(&settings(unit, "SystemCallFilter"));
    let mut command = program("setpriv", "util-linux");
    command.args(["--no-new-privs", "unshare"]);
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let private_tmp = "mount -t tmpfs tmpfs \"$0\" && TMPDIR=\"$0\" exec \"$@\"";
    command.args(["--mount", "sh", "-c", private_tmp]).arg(tmp.path());
    // The capabilities are set before system calls are refused, among which is capset(2).
    command.args(capabilities(unit));
    let refusing = refusing(Errno::PERM, &refused);
    command.arg(refusing.get_program()).args(refusing.get_args());
    if let Some(denial) = denial {
        command.args(denial.words());
    }
    command
}

#[track_caller]
fn serves(server: &Server, path: &str, holds: &str) {
    let mut connection = server.connect();
    for number in 0..REQUESTS {
        let response = connection.exchange(&Request::get(path));
        assert_eq!(response.status, 200, "request {number} for {path}: {response}");
        assert!(response.text().contains(holds), "request {number} for {path}: {response}");
        if response.field("Connection") == Some("close") {
            connection = server.connect();
        }
    }
}

#[test]
fn static_sites_and_scripts_are_served_under_the_directives_of_the_unit() {
    let denials = Denial::known().into_iter().map(Some);
    for (number, denial) in [None].into_iter().chain(denials).enumerate() {
        let io = Io::BOTH[number % 2];
        let (_folder, script) = script(HOT);
        let tmp = Folder::new("private-tmp");
        let sites = source_root().join("examples");
        for (site, holds) in
            [(sites.join("site"), "<"), (sites.join("guestbook"), "Guestbook"), (script, "3003 ")]
        {
            let flags = ["--io", io.as_str()];
            let server = Start::site(&site).flags(&flags).under(confined(denial, &tmp)).start();
            serves(&server, "/", holds);
            let said = server.last_words();
            let logged = said.iter().filter(|line| line.starts_with(NO_JIT)).count();
            let is_expected = denial.is_some() && !site.ends_with("site") && has_jit();
            assert_eq!(logged, usize::from(is_expected), "{denial:?}: {said:#?}");
        }
    }
}

/// Returns the words of a command that keeps only the capabilities of a unit. Root gets all of
/// them, like a user with ambient capabilities.
fn capabilities(unit: &str) -> [String; 2] {
    let [bounding] = settings(unit, "CapabilityBoundingSet")[..] else { panic!("one set") };
    assert_eq!(settings(unit, "AmbientCapabilities"), [bounding]);
    let names = bounding.split(' ').map(|name| name.strip_prefix("CAP_").expect("a capability"));
    let kept: String = names.map(|name| format!(",+{}", name.to_lowercase())).collect();
    ["setpriv".to_owned(), format!("--bounding-set=-all{kept}")]
}

/// A script that starts a program, which prints its user ID and must not change it.
const STARTING: &str = r#"
pinion.get("/", function()
    local process = assert(pinion.process.run("sh", { "-c", "echo program $(id -u)" }))
    return assert(process:output())
end)
"#;

#[test]
fn programs_are_started_under_the_directives_of_both_units() {
    for name in ["pinion.service", "pinion-apps.service"] {
        let unit = unit(name);
        for io in Io::BOTH {
            let (_folder, script) = script(STARTING);
            let tmp = Folder::new("private-tmp");
            let runner = confined_by(&unit, None, &tmp);
            let flags = ["--io", io.as_str(), "--lua-program", "sh=/bin/sh"];
            let server = Start::site(&script).flags(&flags).under(runner).start();
            assert_eq!(server.get("/").text(), "program 0\n", "{name}");
            server.stop();
        }
    }
}

/// The steps of the spawner with a program of another user (`crates/spawner/src/fork_exec.rs`), in
/// its order, and then a signal to it. The pipe ends when the program is executed. Without root
/// there is no other user to switch to.
const AS_ANOTHER_USER: &str = r#"
import os, resource, signal
user = 65534 if os.environ["IS_ROOT"] == "1" else 0
ended, until_ended = os.pipe()
child = os.fork()
if child == 0:
    os.close(ended)
    os.setsid()
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    os.chroot("/")
    os.chdir("/")
    if user:
        os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.execv("/bin/sleep", ["sleep", "1000000"])
os.close(until_ended)
os.read(ended, 1)
found = os.stat("/proc/%d" % child).st_uid
os.kill(child, signal.SIGKILL)
print(os.WTERMSIG(os.waitpid(child, 0)[1]), found == user)
"#;

#[test]
fn only_the_unit_for_apps_controls_programs_of_other_users() {
    let is_root = rustix::process::geteuid().is_root();
    let started = |name: &str| {
        let unit = unit(name);
        let tmp = Folder::new("private-tmp");
        let mut command = confined_by(&unit, None, &tmp);
        command
            .args(["python3", "-c", AS_ANOTHER_USER])
            .env("IS_ROOT", u8::from(is_root).to_string());
        output(&mut command)
    };
    let apps = started("pinion-apps.service");
    let said = String::from_utf8_lossy(&apps.stderr);
    assert_eq!(apps.stdout, b"9 True\n", "{said}");
    let plain = started("pinion.service");
    let said = String::from_utf8_lossy(&plain.stderr);
    assert!(plain.stdout != apps.stdout && said.contains("Operation not permitted"), "{said}");
}

/// Creates a site with a program with these keys that prints its user ID and its limits.
fn supervised(keys: &str) -> Folder {
    let folder = Folder::with("supervised", [("public/index.html", "home")]);
    let script = "echo $(id -u) $(pwd) $(ulimit -n) $(nice); exec sleep 9999";
    folder.write(
        "pinion.toml",
        format!(
            "[[site]]\npath = \"public\"\n[[listen]]\naddress = \"127.0.0.1:0\"\n\
             [[program]]\nname = \"app\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n{keys}\n"
        ),
    );
    folder
}

/// Every key that needs a right, in the unit that has it.
#[test]
fn supervised_programs_run_under_the_directives_of_the_unit_for_apps() {
    let user = if rustix::process::geteuid().is_root() { 65534 } else { 0 };
    let keys =
        format!("user = {user}\ngroup = {user}\nchroot = \"/\"\nnice = 19\nlimits.open-files = 64");
    let folder = supervised(&keys);
    let tmp = Folder::new("private-tmp");
    let runner = confined_by(&unit("pinion-apps.service"), None, &tmp);
    let server = Start::configured(&folder.join("pinion.toml")).under(runner).start();
    let end = format!("]: {user} / 64 19");
    server.wait_for_line(0, |line| line.starts_with("pinion: app[") && line.ends_with(&end));
    server.stop();
}

/// The default unit starts programs as its own user, and reports the rights that it lacks.
#[test]
fn supervised_programs_of_the_default_unit_are_its_own() {
    let keys = "directory = \"/usr\"\nlimits.open-files = 64";
    let folder = supervised(keys);
    let tmp = Folder::new("private-tmp");
    let runner = confined_by(&unit("pinion.service"), None, &tmp);
    let server = Start::configured(&folder.join("pinion.toml")).under(runner).start();
    server.wait_for_line(0, |line| line.contains("]: 0 /usr 64 "));
    server.stop();
    let nice = "pinion: app: cannot set the nice value: Operation not permitted; next start in ";
    let folder = supervised("nice = 19");
    let runner = confined_by(&unit("pinion.service"), None, &tmp);
    let server = Start::configured(&folder.join("pinion.toml")).under(runner).start();
    server.wait_for_line(0, |line| line.starts_with(nice));
    server.stop();
    let folder = supervised("chroot = \"/\"");
    let runner = confined_by(&unit("pinion.service"), None, &tmp);
    let mut server = Start::configured(&folder.join("pinion.toml")).under(runner).begin();
    assert_eq!(server.wait().code(), Some(2));
    let wrong = "chroot: a root directory needs CAP_SYS_CHROOT";
    server.wait_for_line(0, |line| line.contains(wrong));
}

/// A script that sends requests to itself, by a name and by an address, and makes no connection
/// attempts that the unit would forbid.
const FETCHING: &str = r#"
pinion.get("/hello", function() return "hello" end)
pinion.get("/", function(req)
    local port = req.query.port
    local first = assert(pinion.fetch("http://localhost:" .. port .. "/hello"))
    local second = assert(pinion.fetch("http://127.0.0.1:" .. port .. "/hello"))
    local refused, why = pinion.fetch("https://localhost:1/")
    assert(not refused and why:find("connection refused"), why)
    return assert(first:body()) .. " " .. assert(second:body())
end)
"#;

#[test]
fn scripts_send_requests_under_the_directives_of_the_unit() {
    for io in Io::BOTH {
        let (_folder, script) = script(FETCHING);
        let tmp = Folder::new("private-tmp");
        let flags = ["--io", io.as_str(), "--fetch-private"];
        let server = Start::site(&script).flags(&flags).under(confined(None, &tmp)).start();
        serves(&server, &format!("/?port={}", server.address().port()), "hello hello");
    }
}

/// Returns whether the program under test compiles scripts at run time.
fn has_jit() -> bool {
    let folder = Folder::with("jit", [("a.lua", "print(_VERSION)")]);
    run(&["run", folder.join("a.lua").to_str().expect("text")]).stdout.trim() == "Lua 5.1"
}

#[test]
fn scripts_are_run_and_checked_without_executable_memory() {
    let code = "local all = 0 for at = 1, 1e5 do all = all + at end print(all)";
    let (_folder, script) = script(code);
    for denial in Denial::known() {
        let [python, rest @ ..] = denial.words();
        let mut command = program(python, "python3");
        command.args(rest).arg(pinion_tests::binary::pinion()).arg("run");
        let output = stdout(command.arg(&script));
        assert_eq!(output, b"5000050000\n", "{denial:?}");
    }
}

/// LuaJIT makes the memory of its machine code writable whenever it compiles something. If the
/// system refuses that because of missing memory, the request continues uncompiled, however much
/// there is to compile in one turn: new loops, and branches of a loop that is compiled already.
#[test]
fn read_only_compiled_code_fails_no_request() {
    let handlers: String = (0..40)
        .map(|number| {
            format!(
                "pinion.get('/{number}', function()
                    local all = 0
                    for at = 1, 500 do all = all + (at % {0}) end
                    return tostring(all)
                end)\n",
                number + 2
            )
        })
        .collect();
    let branches: String = (0..8)
        .map(|number| format!("if at % (m + {number}) == 0 then all = all + {number} end\n"))
        .collect();
    let branching = format!(
        "pinion.get('/branches', function(req)
            local n, m, all = tonumber(req.query.n), tonumber(req.query.m), 0
            for at = 1, n do {branches} all = all + 1 end
            return tostring(all)
        end)\n"
    );
    let (_folder, script) = script(&(handlers + &branching));
    let server = Start::site(&script).flags(&["--workers", "1"]).start();
    let mut connection = server.connect();
    let expected = |number: u32| (1..=500).map(|at| at % (number + 2)).sum::<u32>().to_string();
    let ask = |connection: &mut Connection, number: u32| {
        let response = connection.exchange(&Request::get(&format!("/{number}")));
        assert_eq!((response.status, response.text()), (200, &*expected(number)), "{response}");
    };
    // The first ones are compiled, so that there is memory with their machine code.
    for number in 0..5 {
        (0..20).for_each(|_| ask(&mut connection, number));
    }
    let branches = |connection: &mut Connection, n: u64, m: u64| {
        let response = connection.exchange(&Request::get(&format!("/branches?n={n}&m={m}")));
        let taken: u64 = (0..8).map(|number| n / (m + number) * number).sum();
        assert_eq!(response.text(), (n + taken).to_string(), "{response}");
    };
    // None of the branches is taken, so none is compiled.
    (0..20).for_each(|_| branches(&mut connection, 300, 1_000_000_000));
    // From now on no private memory can become writable: the existing memory reaches the limit.
    let data = server.memory_bytes("VmData");
    let mut prlimit = program("prlimit", "util-linux");
    prlimit.arg(format!("--pid={}", server.id())).arg(format!("--data={data}:{data}"));
    stdout(&mut prlimit);
    (0..5).for_each(|_| branches(&mut connection, 20_000, 17));
    for number in 5..40 {
        (0..20).for_each(|_| ask(&mut connection, number));
    }
    server.stop();
}
