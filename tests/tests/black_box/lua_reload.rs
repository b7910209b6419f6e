//! Reloads of scripts: a script that does not start changes nothing, whether the check or a worker
//! finds the error, and sites do not affect each other.

use pinion_tests::lua_script_site::script;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, build};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{SetAtEnd, wait_for};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Replaces the text of a script by a rename, as editors do, so that the server never reads half of
/// it.
fn rewrite(folder: &Folder, path: &Path, text: &str) {
    folder.write("next.lua", text);
    std::fs::rename(folder.join("next.lua"), path).expect("renamed");
}

/// Starts one server with several sites, each with its host and its script, from a configuration
/// file.
fn configured(folder: &Folder, sites: &[(&str, &str)]) -> Server {
    let mut text = "[[listen]]\naddress = \"127.0.0.1:0\"\n".to_owned();
    for (host, script) in sites {
        writeln!(text, "[[site]]\nhosts = [\"{host}\"]\npath = \"{script}\"").expect("a line");
    }
    folder.write("pinion.toml", text);
    let start = Start::configured(&folder.join("pinion.toml"));
    start.flags(&["--workers", "1"]).grace(1).start()
}

/// Repeats a request until its response has the wanted text.
#[track_caller]
fn until(server: &Server, target: &str, is_match: impl Fn(&str) -> bool) {
    while !is_match(server.get(target).text()) {
        thread::yield_now();
    }
}

/// The next script starts with the values that an earlier one has kept, so it is also checked with
/// them.
#[test]
fn a_script_that_fails_on_kept_values_is_not_loaded() {
    let (folder, path) = script(
        "pinion.keep.count = 'many'
        pinion.get('/', function() return 'old' end)",
    );
    let server = Start::site(&path).flags(&["--workers", "2"]).start();
    assert_eq!(server.get("/").text(), "old");
    rewrite(
        &folder,
        &path,
        "\nlocal count = (pinion.keep.count or 0) + 1
        pinion.get('/', function() return 'new' end)",
    );
    let from = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(from, |line| line.contains("cannot reload"));
    server.wait_for_line(from, |line| line.contains("site.lua:2:"));
    for _ in 0..20 {
        assert_eq!(server.get("/").text(), "old");
    }
    assert!(!server.lines()[from..].iter().any(|line| line.starts_with("reloaded")));
    rewrite(&folder, &path, "pinion.get('/', function() return 'newer' end)");
    server.signal(Signal::HUP);
    until(&server, "/", |text| text == "newer");
    server.stop();
}

/// Changes of kept values during the check of a script are discarded.
#[test]
fn the_check_of_a_script_does_not_change_kept_values() {
    let text = "pinion.keep.starts = (pinion.keep.starts or 0) + 1
        local starts = pinion.keep.starts
        pinion.get('/', function() return tostring(starts) end)";
    let (_folder, path) = script(text);
    let server = Start::site(&path).flags(&["--workers", "1"]).start();
    assert_eq!(server.get("/").text(), "1");
    server.signal(Signal::HUP);
    until(&server, "/", |text| text == "2");
    server.stop();
}

/// Workers keep values of their own, so a script can start in one worker and fail in another.
#[test]
fn a_worker_that_cannot_start_a_script_keeps_the_earlier_one() {
    let (folder, path) = script(
        "pinion.keep.count = ('9'):rep(100)
        pinion.every(0.01, function()
            if pinion.keep.count ~= 'many' then
                pinion.keep.count = 'many'
                pinion.log('one worker keeps a word')
            end
        end)
        pinion.get('/', function() return 'old' end)
        pinion.log('started')",
    );
    let server = Start::site(&path).flags(&["--workers", "2"]).start();
    // The check, and each worker: a worker that is late would have no kept value yet.
    let started = || server.lines().iter().filter(|line| line.contains("lua: started")).count();
    wait_for("three starts", || (started() == 3).then_some(()));
    server.wait_for_line(0, |line| line.contains("one worker keeps a word"));
    let next = "\nlocal count = (pinion.keep.count or 0) + 1
        pinion.get('/', function() return 'new' end)";
    rewrite(&folder, &path, next);
    let from = server.lines().len();
    server.signal(Signal::HUP);
    let logged = server.wait_for_line(from, |line| line.contains("cannot reload"));
    assert!(logged.contains("site.lua in one worker, keeping the previous version"), "{logged}");
    server.wait_for_line(from, |line| line.contains("site.lua:2:"));
    let responses: Vec<_> = (0..100).map(|_| server.get("/").text().to_owned()).collect();
    assert!(responses.iter().all(|text| text == "old" || text == "new"), "{responses:?}");
    assert!(responses.iter().any(|text| text == "old"), "{responses:?}");
    assert!(responses.iter().any(|text| text == "new"), "{responses:?}");
    rewrite(&folder, &path, "pinion.get('/', function() return 'newer' end)");
    let from = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(from, |line| line.starts_with("reloaded"));
    until(&server, "/", |text| text == "newer");
    server.stop();
}

/// While a script starts in one worker, the others continue with their current script.
#[test]
fn workers_start_a_new_script_one_after_the_other() {
    let (folder, path) = script("pinion.get('/', function() return 'old' end)");
    let server = Start::site(&path).flags(&["--workers", "4"]).start();
    assert_eq!(server.get("/").text(), "old");
    let next = "pinion.log('start begins')
        for n = 1, 3e7 do local _ = n % 7 end
        pinion.log('start ends')";
    rewrite(&folder, &path, next);
    server.signal(Signal::HUP);
    let starts = || -> Vec<bool> {
        let lines = server.lines();
        let is_start = |line: &&String| line.contains("lua: start ");
        lines.iter().filter(is_start).map(|line| line.ends_with("begins")).collect()
    };
    // The check, and each worker.
    wait_for("five starts", || (starts().len() == 10).then_some(()));
    assert_eq!(starts(), [true, false].repeat(5));
    server.stop();
}

/// While a script is checked, the workers continue with the earlier one; no request fails at the
/// change either.
#[test]
fn requests_are_served_while_a_new_script_is_checked() {
    let answering = |name: &str| {
        format!(
            "pinion.get('/', function()
                pinion.log('answered by the {name} one')
                return '{name}'
            end)"
        )
    };
    let (folder, path) = script(&answering("old"));
    // A start may use as much CPU time as a request, if that is more.
    let server = Start::site(&path).flags(&["--workers", "1", "--lua-cpu", "60000"]).start();
    let mut client = server.client();
    assert_eq!(client.exchange(&Request::get("/")).text(), "old");
    // A second of CPU time, on any machine.
    let next = "pinion.log('start begins')
        local from = os.clock()
        while os.clock() - from < 1 do end
        pinion.log('start ends')\n";
    rewrite(&folder, &path, &(next.to_owned() + &answering("new")));
    let from = server.lines().len();
    server.signal(Signal::HUP);
    // A pause after each request leaves CPU time to the start and bounds the log.
    wait_for("the new script", || {
        let response = client.exchange(&Request::get("/"));
        assert_eq!(response.status, 200);
        (response.text() == "new").then_some(())
    });
    let lines = server.lines().split_off(from);
    let at = |said: &str| lines.iter().position(|line| line.ends_with(said)).expect(said);
    // The first of both starts is the check. A worker that was blocked by it would log nothing.
    let proof = &lines[at("lua: start begins")..at("lua: start ends")];
    assert!(proof.iter().any(|line| line.ends_with("answered by the old one")), "{proof:?}");
    server.stop();
}

/// A reload of all sites of a server is one reload for each site.
#[test]
fn each_site_keeps_its_own_earlier_scripts() {
    let text = "pinion.get('/slow', function()
            pinion.keep.began = true
            while not pinion.keep.go do pinion.sleep(0.01) end
            return 'whole'
        end)
        pinion.get('/began', function() return tostring(pinion.keep.began) end)
        pinion.get('/go', function() pinion.keep.go = true return 'gone' end)";
    let names: Vec<_> = (0..6).map(|n| (format!("{n}.test"), format!("{n}.lua"))).collect();
    let folder = Folder::with("lua-reload", names.iter().map(|(_, path)| (path.as_str(), text)));
    let sites: Vec<_> = names.iter().map(|(host, path)| (host.as_str(), path.as_str())).collect();
    let server = configured(&folder, &sites);
    let ask = |host: &str, target: &str| {
        server.exchange(&Request::get(target).host(host)).text().to_owned()
    };
    thread::scope(|scope| {
        let mut slow = Vec::new();
        for (host, _) in &sites {
            let server = &server;
            slow.push(scope.spawn(|| server.exchange(&Request::get("/slow").host(host))));
            while ask(host, "/began") != "true" {}
        }
        let from = server.lines().len();
        server.signal(Signal::HUP);
        for (_, path) in &sites {
            server.wait_for_line(from, |line| line.starts_with("reloaded") && line.contains(path));
        }
        for (host, _) in &sites {
            assert_eq!(ask(host, "/go"), "gone");
        }
        for slow in slow {
            let response = slow.join().expect("answered");
            assert_eq!((response.status, response.text()), (200, "whole"));
        }
    });
    server.stop();
}

/// When an archive replaces another one, the code and the content are switched at once: a client
/// that has seen something new sees nothing old any more.
#[test]
fn a_new_archive_switches_handlers_pages_and_files_together() {
    switches_all_together(&[], |server| server.signal(Signal::HUP));
}

/// The same holds if the server detects the new archive by watching.
#[test]
fn a_watched_archive_switches_handlers_pages_and_files_together() {
    switches_all_together(&["--watch"], |_| {});
}

/// Tests a server with these flags, where `start_reload` lets it load a new archive, while a client
/// sends requests without pause.
fn switches_all_together(flags: &[&str], start_reload: impl Fn(&Server)) {
    let folder = Folder::with("lua-reload", [("site/public_html/index.html", "home")]);
    let archive = folder.join("site.pin");
    let make = |version: u32| {
        let handler = format!("pinion.get('/handler', function() return '{version}' end)");
        folder.write("site/main.lua", handler);
        folder.write("site/public_html/page.dyn.html", format!("#[[ {version} ]]"));
        folder.write("site/public_html/file.txt", version.to_string());
        build(&folder.join("site"), &folder.join("next.pin"), &["--no-reuse"]);
        std::fs::rename(folder.join("next.pin"), &archive).expect("renamed");
    };
    make(0);
    let server = Start::site(&archive).flags(&["--workers", "1"]).flags(flags).start();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = SetAtEnd(&is_over);
        let asking = scope.spawn(|| {
            let (mut client, mut newest) = (server.client(), 0);
            while !is_over.load(Ordering::Relaxed) {
                for target in ["/handler", "/page", "/file.txt"] {
                    let response = client.exchange(&Request::get(target));
                    assert_eq!(response.status, 200, "{target}");
                    let version: u32 = response.text().trim().parse().expect("a number");
                    assert!(version >= newest, "{target}: {version} after {newest}");
                    newest = version;
                }
            }
            newest
        });
        for version in 1..=5 {
            let from = server.lines().len();
            make(version);
            start_reload(&server);
            server.wait_for_line(from, |line| line.starts_with("reloaded"));
            until(&server, "/handler", |text| text == version.to_string());
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(asking.join().expect("all answered") <= 5);
    });
    server.stop();
}

/// The log reports work that is not continued.
#[test]
fn work_lost_with_an_earlier_script_is_logged() {
    let edition = |name: u32| {
        format!(
            "pinion.get('/', function() return '{name}' end)
            pinion.get('/work', function()
                for _ = 1, 3 do pinion.spawn(function() pinion.sleep(600) end) end
                return 'begun'
            end)"
        )
    };
    let (folder, path) = script(&edition(0));
    let server = Start::site(&path).flags(&["--workers", "1"]).grace(1).start();
    assert_eq!(server.get("/work").text(), "begun");
    for name in 1..=5 {
        let logged = |line: &String| line.contains("reloaded more than 4 times");
        assert!(!server.lines().iter().any(logged), "after {} reloads", name - 1);
        rewrite(&folder, &path, &edition(name));
        server.signal(Signal::HUP);
        until(&server, "/", |text| text == name.to_string());
        if name < 5 {
            assert_eq!(server.get("/work").text(), "begun");
        }
    }
    let logged = server.wait_for_line(0, |line| line.contains("reloaded more than 4 times"));
    assert!(logged.contains("site.lua") && logged.contains("pieces lost: 3"), "{logged}");
    server.stop();
}

/// Values that one worker has signed are valid in the others, for the current script as well as the
/// earlier one. The script of another site has other keys.
#[test]
fn a_site_has_one_key_for_each_name_as_long_as_the_server_runs() {
    let text = |version: u32| {
        format!(
            "pinion.get('/', function()
                local hex = pinion.codec.hex_encode
                local function key(name) return hex(pinion.crypto.key(name)) end
                return '{version} ' .. key('a') .. ' ' .. key('b')
            end)"
        )
    };
    let (folder, path) = script(&text(1));
    let server = configured(&folder, &[("a.test", "site.lua"), ("b.test", "site.lua")]);
    let keys = |host: &str| server.exchange(&Request::get("/").host(host)).text().to_owned();
    let (one, other) = (keys("a.test"), keys("b.test"));
    let [_, a, b] = one.split(' ').collect::<Vec<_>>()[..] else { panic!("{one}") };
    assert!(a.len() == 64 && b.len() == 64 && a != b, "{one}");
    assert!(!other.contains(a) && !other.contains(b), "{other}");
    rewrite(&folder, &path, &text(2));
    server.signal(Signal::HUP);
    while keys("a.test").starts_with('1') {}
    assert_eq!(keys("a.test")[2..], one[2..]);
    server.stop();
    let server = Start::site(&path).flags(&["--workers", "3"]).start();
    let first = server.get("/").text().to_owned();
    assert_ne!(first[2..], one[2..], "another server");
    (0..30).for_each(|_| assert_eq!(server.get("/").text(), first));
    server.stop();
}

/// Two sites can have the same script and share nothing.
#[test]
fn sites_with_the_same_script_share_no_values_and_messages() {
    let text = "local heard = 'nothing'
        pinion.on('news', function(text) heard = text end)
        pinion.get('/', function() return tostring(pinion.keep.word) .. ' ' .. heard end)
        pinion.get('/say/:word', function(req)
            pinion.keep.word = req.params.word
            pinion.send('news', req.params.word)
            return 'said'
        end)";
    let (folder, _) = script(text);
    let server = configured(&folder, &[("a.test", "site.lua"), ("b.test", "site.lua")]);
    let ask = |host: &str, target: &str| {
        server.exchange(&Request::get(target).host(host)).text().to_owned()
    };
    assert_eq!(ask("a.test", "/say/one"), "said");
    while ask("a.test", "/") != "one one" {}
    assert_eq!(ask("b.test", "/"), "nil nothing");
    assert_eq!(ask("b.test", "/say/two"), "said");
    while ask("b.test", "/") != "two two" {}
    assert_eq!(ask("a.test", "/"), "one one");
    server.stop();
}
