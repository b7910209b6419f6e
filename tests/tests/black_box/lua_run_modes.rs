//! Ways to run scripts: with their errors in pages, with other limits, without the sandbox, and at
//! the command line.

use pinion_tests::binary::pinion;
use pinion_tests::lua_script_site::script;
use pinion_tests::request::Request;
use pinion_tests::server::{Ended, Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

const SCRIPT: &str = r#"
pinion.get("/fails", function()
    error("<script>alert('secret')</script>")
end)
pinion.get("/fails-late", function()
    pinion.sleep(0.001)
    error("<script>alert('secret')</script>")
end)
pinion.get("/busy", function()
    local start = os.clock()
    while os.clock() - start < 0.6 do end
    return "done"
end)
pinion.get("/large", function()
    local all = {}
    for n = 1, 4 do all[n] = ("x"):rep(10 * 1024 * 1024) .. n end
    return tostring(#all)
end)
pinion.get("/small", function() return tostring(#("x"):rep(2 * 1024 * 1024)) end)
local kept = {}
pinion.get("/keep", function()
    kept[#kept + 1] = ("x"):rep(1024 * 1024) .. #kept
    return "kept"
end)
pinion.get("/sleeps", function() pinion.sleep(1000) return "slept" end)
pinion.get("/", function() return "well" end)
"#;

fn served(flags: &[&str]) -> (Folder, Server) {
    let (folder, path) = script(SCRIPT);
    let server = Start::site(&path).flags(&["--workers", "1"]).flags(flags).start();
    (folder, server)
}

/// Returns the responses to a browser and to a tool for a path.
fn both(server: &Server, target: &str) -> [String; 2] {
    ["text/html", "text/plain"].map(|media| {
        let response = server.exchange(&Request::get(target).field("Accept", media));
        assert_eq!(response.status, 500);
        assert!(response.field("content-type").is_some_and(|kind| kind.starts_with(media)));
        assert_eq!(response.field("cache-control"), Some("no-store"));
        response.text().to_owned()
    })
}

#[test]
fn an_error_is_shown_with_dev_and_as_text_only() {
    let (folder, server) = served(&["--dev"]);
    server.wait_for_line(0, |line| line.contains("--dev") && line.contains("site.lua"));
    for (target, line) in [("/fails", "site.lua:3"), ("/fails-late", "site.lua:7")] {
        let [html, text] = both(&server, target);
        for page in [&html, &text] {
            assert!(page.contains(line) && page.contains("stack traceback"), "{page}");
        }
        // The page has only the script that reloads it.
        let reload = "<script src=/.pinion/reload.js?";
        assert_eq!((html.matches("<script").count(), html.matches(reload).count()), (1, 1));
        assert!(html.contains("&lt;script&gt;alert('secret')&lt;/script&gt;"), "{html}");
        assert!(text.contains("<script>alert('secret')</script>"), "{text}");
    }
    // The server also watches the site.
    folder.write("site.lua", "pinion.get('/', function() return 'changed' end)");
    server.wait_for_line(0, |line| line.starts_with("reloaded"));
    while server.get("/").text() != "changed" {}
    server.stop();
}

#[test]
fn an_error_is_not_shown_without_dev() {
    let (_folder, server) = served(&[]);
    for target in ["/fails", "/fails-late"] {
        for page in both(&server, target) {
            assert!(!page.contains("secret") && !page.contains(".lua"), "{page}");
        }
    }
    server.wait_for_line(0, |line| line.contains("secret"));
    assert!(!server.lines().iter().any(|line| line.contains("--dev")));
    server.stop();
}

#[test]
fn with_dev_a_page_error_replaces_the_error_page_of_the_site() {
    let files = [
        ("a.dyn.html", "<p>\n<?lua error('<b>of a page</b>') ?>"),
        ("_500.html", "<h1>our own page"),
    ];
    let site = Folder::with("lua-modes-pages", files);
    for (flags, is_shown) in [(&["--dev"][..], true), (&[], false)] {
        let server = Start::site(site.path()).flags(flags).start();
        let response = server.exchange(&Request::get("/a").field("Accept", "text/html"));
        assert_eq!(response.status, 500);
        let page = response.text();
        assert!(page.contains("our own page") != is_shown, "{page}");
        assert!(!page.contains("<b>of a page"), "{page}");
        assert_eq!(page.contains("a.dyn.html:2"), is_shown, "{page}");
        assert_eq!(page.contains("&lt;b&gt;of a page"), is_shown, "{page}");
        server.stop();
    }
}

#[test]
fn each_limit_can_be_configured() {
    let limited = |flags: &[&str], target: &str| {
        let (_folder, server) = served(flags);
        let status = server.get(target).status;
        assert_eq!(server.get("/").text(), "well");
        server.stop();
        status
    };
    assert_eq!(limited(&[], "/busy"), 500);
    assert_eq!(limited(&["--lua-cpu", "60000"], "/busy"), 200);
    // On machines where allocating memory is slow, it also costs CPU time.
    assert_eq!(limited(&["--lua-cpu", "60000"], "/large"), 500);
    assert_eq!(limited(&["--lua-cpu", "60000", "--lua-memory", "200"], "/large"), 200);
    assert_eq!(limited(&[], "/small"), 200);
    assert_eq!(limited(&["--lua-memory", "1"], "/small"), 500);
    assert_eq!(limited(&["--lua-time", "1"], "/sleeps"), 503);
}

#[test]
fn the_memory_of_a_vm_is_limited() {
    let (_folder, server) = served(&["--lua-memory", "8", "--lua-vm-memory", "8"]);
    let statuses: Vec<u16> = (0..10).map(|_| server.get("/keep").status).collect();
    assert_eq!(statuses.first(), Some(&200));
    assert_eq!(statuses.last(), Some(&500));
    server.stop();
    let (_folder, server) = served(&[]);
    assert!((0..10).all(|_| server.get("/keep").status == 200));
    server.stop();
}

#[test]
fn impossible_limits_end_the_start() {
    let (_folder, path) = script(SCRIPT);
    for (flags, said) in [
        (&["--lua-memory", "500"][..], "--lua-vm-memory 256"),
        (&["--lua-cpu", "0"], "--lua-cpu"),
        (&["--lua-time", "1s"], "--lua-time"),
    ] {
        let arguments = [&["serve", path.to_str().expect("text")], flags].concat();
        let ended = run(&arguments);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}

#[test]
fn a_reload_applies_a_changed_limit_of_the_file() {
    let (folder, _) = script(SCRIPT);
    let configuration = |memory: u32| {
        format!(
            "[[listen]]\naddress = \"127.0.0.1:0\"\n[[site]]\npath = \"site.lua\"\n\
             lua-memory = {memory}\n"
        )
    };
    folder.write("pinion.toml", configuration(1));
    let server = Start::configured(&folder.join("pinion.toml")).start();
    assert_eq!(server.get("/small").status, 500);
    folder.write("pinion.toml", configuration(64));
    server.signal(Signal::HUP);
    server.wait_for_line(0, |line| line.contains("pinion.toml: "));
    // Each worker has the new limit from its next pass on.
    wait_for("the other limit", || (server.get("/small").status == 200).then_some(()));
    server.stop();
}

const UNSAFE: &str = r#"
local secret = assert(io.open(arg_of_test)):read("*a")
local compiled = (loadstring or load)(string.dump(function() return 42 end))
pinion.get("/read", function() return secret .. compiled() end)
pinion.get("/ffi", function()
    local ffi = require("ffi")
    ffi.cdef("int abs(int);")
    return tostring(ffi.C.abs(-7))
end)
pinion.get("/found", function() return require("beside").text end)
pinion.get("/lua", function() return _VERSION end)
"#;

#[test]
fn without_the_sandbox_a_script_reaches_the_machine() {
    let folder = Folder::with("lua-unsafe", [("secret", "a secret ")]);
    folder.write("modules/beside.lua", "return { text = 'a module of the system' }");
    let (secret, modules) = (folder.join("secret"), folder.join("modules/?.lua"));
    let place = format!(
        "package.path = {:?}; local arg_of_test = {:?}",
        modules.to_str().expect("text"),
        secret.to_str().expect("text")
    );
    let text = format!("{place}{UNSAFE}");
    folder.write("site.lua", &text);
    let path = folder.join("site.lua");
    let server = Start::site(&path).flags(&["--lua-unsafe", "--workers", "1"]).start();
    server.wait_for_line(0, |line| line.contains("--lua-unsafe"));
    assert_eq!(server.get("/read").text(), "a secret 42");
    match server.get("/lua").text() {
        "Lua 5.4" => assert_eq!(server.get("/ffi").status, 500),
        _ => assert_eq!(server.get("/ffi").text(), "7"),
    }
    assert_eq!(server.get("/found").text(), "a module of the system");
    server.stop();
    let mut refused = Start::site(&path).begin();
    assert!(!refused.wait().success());
    refused.wait_for_line(0, |line| line.contains("site.lua:1"));
}

/// Runs a script at the command line.
fn ran(text: &str, flags: &[&str], arguments: &[&str]) -> Ended {
    let (_folder, path) = script(text);
    let words = [&["run"], flags, &[path.to_str().expect("text")], arguments].concat();
    run(&words)
}

#[test]
fn a_script_runs_to_its_end() {
    let text = r#"
        print("arguments", arg[1], arg[2], select('#', ...), #arg)
        pinion.sleep(0.01)
        print(pinion.gather(function() pinion.sleep(0.01) return "a" end,
            function() return "b" end))
        pinion.spawn(function() pinion.sleep(0.01) print("behind") end)
        pinion.on("channel", function(value) print("heard", value) end)
        pinion.send("channel", 7)
        local stored = pinion.password.hash("secret")
        print(pinion.password.verify("secret", stored), io)
        pinion.log("for the log")
        for n = 1, 2000 do pinion.gather(function() end) end
        print("last")
    "#;
    let ended = ran(text, &[], &["--one", "two words"]);
    let (code, said) = (ended.code, ended.stdout.as_str());
    assert_eq!(code, Some(0), "{}", ended.stderr);
    assert!(said.starts_with("arguments\t--one\ttwo words\t2\t2\na\tb\n"), "{said}");
    for line in ["true\tnil\n", "last\nbehind\n", "heard\t7\n"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(ended.stderr.contains("for the log") && !said.contains("for the log"));
}

#[test]
fn the_end_of_a_script_determines_the_exit_code() {
    for (text, code, said) in [
        ("print('well')", 0, ""),
        ("\n\nerror('too bad')", 1, "site.lua:3: too bad"),
        ("\npinion.sleep(0.001) local no = nil; no.thing()", 1, "site.lua:2:"),
        ("\nthis is no Lua", 1, "site.lua:2:"),
        ("pinion.spawn(function() error('beside') end)", 1, "site.lua:1: beside"),
        ("pinion.every(0.01, function() end) error('at once')", 1, "at once"),
        ("pinion.spawn(function() pinion.sleep(0.01) pinion.exit(7) end)", 7, ""),
        ("pinion.every(0.01, function() pinion.exit(3) end)", 3, ""),
        ("pinion.exit()", 0, ""),
        ("pinion.exit(256)", 1, "0 to 255"),
        ("\nrequire('lib.db')", 1, "site.lua:2: there is no module \"lib.db\": pinion run has no"),
        ("\nassert(pinion.fs.read('a/b'))", 1, "site.lua:2: pinion run gives a script no folders"),
    ] {
        let ended = ran(text, &[], &[]);
        assert_eq!(ended.code, Some(code), "{text}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{text}: {}", ended.stderr);
        assert_eq!(ended.stderr.is_empty(), said.is_empty(), "{text}: {}", ended.stderr);
    }
    let missing = run(&["run", "/nowhere/site.lua"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("/nowhere/site.lua"), "{}", missing.stderr);
}

#[test]
fn a_script_at_the_command_line_has_the_limits_that_it_is_given() {
    let busy = "local start = os.clock() while os.clock() - start < 1.5 do end print('done')";
    assert_eq!(ran(busy, &[], &[]).stdout, "done\n");
    let endless = ran("while true do end", &["--lua-cpu", "1500"], &[]);
    assert_eq!(endless.code, Some(1), "{}", endless.stderr);
    let reads = "print(io.open(arg[0]):read('*l'))";
    assert_eq!(ran(reads, &[], &[]).code, Some(1));
    assert_eq!(ran(reads, &["--lua-unsafe"], &[]).stdout, format!("{reads}\n"));
}

#[test]
fn an_interrupt_ends_a_script() {
    for text in ["print('up') pinion.every(60, function() end)", "print('up') while true do end"] {
        let (_folder, path) = script(text);
        // A shell that starts the tests with `&` lets them, and their programs, ignore the signal.
        let mut command = Command::new("env");
        let command = command.arg("--default-signal=INT").arg(pinion()).arg("run").arg(&path);
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.expect("started");
        let mut line = String::new();
        let out = child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "up\n");
        kill_process(Pid::from_child(&child), Signal::INT).expect("sent");
        assert_eq!(child.wait().expect("ended").signal(), Some(2));
    }
}
