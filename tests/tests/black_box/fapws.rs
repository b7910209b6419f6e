//! Scripts that were written for fapws, served by their path alone: requests, and timers and
//! deferred calls over several processes and reloads.

use pinion_tests::body::decoded;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Signal, geteuid};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

/// A site as the samples of fapws have it, in the syntax of Python 3.
const SITE: &str = r#"#!/usr/bin/env python3
import fapws._evwsgi as evwsgi
from fapws import base
from fapws.contrib import views, zip, log
import time

visits = {}

def start():
    evwsgi.start("0.0.0.0", "8080")
    evwsgi.set_base_module(base)

    @log.Log()
    def hello(environ, start_response):
        start_response('200 OK', [('Content-Type', 'text/html')])
        return ["hello ", "world!!"]

    def iteration(environ, start_response):
        start_response('200 OK', [('Content-Type', 'text/plain')])
        yield "hello"
        yield " "
        yield "world!!"

    @zip.Gzip()
    def long_text(environ, start_response):
        start_response('200 OK', [('Content-Type', 'text/plain')])
        return ["a line of text\n"] * 1000

    def form(environ, start_response):
        params = environ['fapws.params']
        start_response(base.get_status(200), [('Content-Type', 'text/plain')])
        return ["%s from %s" % (params.get('name', ['nobody'])[0], environ['fapws.remote_addr'])]

    evwsgi.wsgi_cb(("/iterhello", iteration))
    evwsgi.wsgi_cb(("/hello", hello))
    evwsgi.wsgi_cb(("/long", long_text))
    evwsgi.wsgi_cb(("/form", form))
    evwsgi.wsgi_cb(("/static/", views.Staticfile("static/", maxage=3600)))
    evwsgi.set_debug(0)
    evwsgi.run()
    print("closed after run")

if __name__ == "__main__":
    start()
"#;

/// A site whose timer and deferred calls note when they begin and end.
const JOBS: &str = r#"
import fapws._evwsgi as evwsgi
from fapws import base
import os, time

def note(text):
    file = os.open('notes/notes', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(file, ('%d %s\n' % (os.getpid(), text)).encode())
    os.close(file)

def job(name):
    note('begin ' + name)
    while name == 'waiting' and not os.path.exists('go'):
        time.sleep(0.001)
    time.sleep(0.002)
    note('end ' + name)

def tick():
    job('tick')

def defers(environ, start_response):
    for name in environ['QUERY_STRING'].split('+'):
        evwsgi.defer(job, name, False)
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [str(evwsgi.defer_queue_size())]

def page(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [str(os.getpid())]

evwsgi.start("0.0.0.0", "8080")
evwsgi.set_base_module(base)
evwsgi.wsgi_cb(("/defer", defers))
evwsgi.wsgi_cb(("/page", page))
evwsgi.add_timer(0.01, tick)
evwsgi.run()
"#;

fn folder(name: &str, script: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write("run.py", script);
    folder.write("notes/.keep", "");
    // The script runs as another user if the tests run as root.
    for (path, mode) in [("", 0o755), ("notes", 0o777)] {
        let mode = Permissions::from_mode(mode);
        fs::set_permissions(folder.join(path), mode).expect("permissions");
    }
    folder
}

fn serve(folder: &Folder, flags: &[&str]) -> Server {
    let user: &[&str] = if geteuid().is_root() { &["--python-user", "nobody"] } else { &[] };
    let python = ["--python", "/usr/bin/python3"];
    Start::site(&folder.join("run.py")).flags(&python).flags(user).flags(flags).start()
}

#[test]
fn a_fapws_script_is_served_when_its_file_is_named() {
    let folder = folder("fapws-site", SITE);
    folder.write("static/page.html", "<p>A page.");
    let server = serve(&folder, &[]);
    let hello = server.get("/hello");
    assert_eq!((hello.status, hello.text()), (200, "hello world!!"));
    assert_eq!(hello.field("Content-Type"), Some("text/html"));
    server.wait_for_line(0, |line| line.contains("\"GET /hello HTTP/1.1\" 200 13"));
    // A prefix need not end at a slash.
    assert_eq!(server.get("/helloclass").text(), "hello world!!");
    assert_eq!(server.get("/iterhello").text(), "hello world!!");
    assert_eq!(server.get("/other").status, 404);
    assert_eq!(server.exchange(&Request::new("DELETE", "/hello")).status, 501);
    let options = server.exchange(&Request::new("OPTIONS", "/hello"));
    assert_eq!(options.field("Allow"), Some("GET, POST, HEAD, OPTIONS"), "{options}");
    let form = Request::new("POST", "/form")
        .field("Content-Type", "application/x-www-form-urlencoded")
        .body(b"name=J%C3%BCrgen+A");
    assert_eq!(server.exchange(&form).text(), "Jürgen A from 127.0.0.1");

    let zipped = server.exchange(&Request::get("/long").field("Accept-Encoding", "gzip"));
    assert_eq!(zipped.field("Content-Encoding"), Some("gzip"), "{zipped}");
    let lines = "a line of text\n".repeat(1000);
    assert!(decoded(&zipped) == lines.as_bytes());
    assert_eq!(server.get("/long").text(), lines);

    let file = server.get("/static/page.html");
    assert_eq!((file.status, file.text()), (200, "<p>A page."));
    assert_eq!(file.field("Cache-Control"), Some("max-age=3600"));
    for (name, of) in [("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified")] {
        let value = file.field(of).expect("a validator");
        let request = Request::get("/static/page.html").field(name, value);
        assert_eq!(server.exchange(&request).status, 304, "{name}");
    }
    assert_eq!(server.get("/static/%2e%2e/run.py").status, 400, "the source is no file");
    let words = server.last_words();
    assert!(words.iter().any(|line| line.contains("closed after run")), "{words:?}");
}

/// Returns the lines that jobs have written: the process, and whether a job begins or ends.
fn notes(folder: &Folder) -> Vec<(String, String)> {
    let text = fs::read_to_string(folder.join("notes/notes")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let of_line = |line: &str| {
        let (process, words) = line.split_once(' ').expect("a process and words");
        (process.to_owned(), words.to_owned())
    };
    whole.lines().map(of_line).collect()
}

/// Waits for this many more ticks than there are, and returns the processes that have made them.
fn next_ticks(folder: &Folder, count: usize) -> BTreeSet<String> {
    let begin = notes(folder).len();
    wait_for("ticks of the timer", || {
        let notes = notes(folder);
        let ticks = notes[begin..].iter().filter(|(_, words)| words == "end tick");
        let ticks: Vec<_> = ticks.map(|(process, _)| process.clone()).collect();
        (ticks.len() >= count).then(|| ticks.into_iter().collect())
    })
}

/// Reloads, until new processes get the requests. Returns how many lines there were before.
fn reload(server: &Server) -> usize {
    let from = server.lines().len();
    server.signal(Signal::HUP);
    server.wait_for_line(from, |line| line.starts_with("reloaded Python application"));
    from
}

/// Waits until this many processes have ended: until then, one may get the timers of another.
fn wait_for_ends(server: &Server, from: usize, count: usize) {
    wait_for("the end of the old processes", || {
        let lines = server.lines().split_off(from);
        let ends = lines.iter().filter(|line| line.contains("exited with status 0"));
        (ends.count() == count).then_some(())
    });
}

fn assert_one_job_at_a_time(folder: &Folder) {
    for pair in notes(folder).chunks_exact(2) {
        let [(begins_in, begin), (ends_in, end)] = pair else { continue };
        assert_eq!(begins_in, ends_in, "{begin} and {end}");
        assert_eq!(begin.strip_prefix("begin "), end.strip_prefix("end "), "{begin} and {end}");
    }
}

/// Timers are called by one of three processes, also while others replace them, and no two calls
/// overlap. Deferred calls of a process that is replaced are all made.
#[test]
fn timers_and_deferred_calls_run_once_over_processes_and_reloads() {
    let folder = folder("fapws-jobs", JOBS);
    let server = serve(&folder, &["--python-processes", "3"]);
    assert_eq!(next_ticks(&folder, 20).len(), 1);
    let mut callers = BTreeSet::new();
    for _ in 0..4 {
        let before = next_ticks(&folder, 5);
        callers.extend(before.clone());
        let from = reload(&server);
        wait_for_ends(&server, from, 3);
        let after = next_ticks(&folder, 10);
        assert!(after.len() == 1 && after.is_disjoint(&before), "{after:?} behind {before:?}");
    }
    assert_one_job_at_a_time(&folder);
    callers.extend(next_ticks(&folder, 1));
    assert_eq!(callers.len(), 5, "{callers:?}");

    assert_eq!(server.get("/defer?waiting+a+b+c").text(), "4");
    wait_for("the first deferred call", || {
        notes(&folder).last().is_some_and(|(_, words)| words == "begin waiting").then_some(())
    });
    let from = reload(&server);
    assert!(!server.get("/page").text().is_empty());
    folder.write("go", "");
    wait_for("the deferred calls", || {
        let notes = notes(&folder);
        let ends = |name: &&str| notes.iter().any(|(_, words)| words == *name);
        ["end waiting", "end a", "end b", "end c"].iter().all(ends).then_some(())
    });
    wait_for_ends(&server, from, 3);
    assert_eq!(next_ticks(&folder, 5).len(), 1);
    assert_one_job_at_a_time(&folder);
    server.stop();
}
