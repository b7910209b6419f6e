//! Processes of Python applications that hang are replaced: those whose threads are all in requests
//! over their time, and those whose event loop is blocked.

use crate::mounts::{site, start};
use pinion_tests::matrix::Io;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use rustix::process::geteuid;

const WSGI: &str = r#"
import os, threading

def application(environ, start_response):
    if environ['PATH_INFO'] == '/hangs':
        threading.Event().wait()
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [str(os.getpid()).encode()]
"#;

/// The loop is blocked by a call that keeps the interpreter to itself, too: no other thread of the
/// process runs while a regular expression is matched.
const ASGI: &str = r#"
import asyncio, os, re, time

async def application(scope, receive, send):
    if scope['type'] != 'http':
        return
    if scope['path'].endswith('/blocks'):
        time.sleep(100000)
    if scope['path'].endswith('/keeps-the-lock'):
        re.match('(a|a)*b', 'a' * 64)
    if scope['path'].endswith('/waits'):
        await asyncio.Event().wait()
    fields = [(b'content-type', b'text/plain')]
    await send({'type': 'http.response.start', 'status': 200, 'headers': fields})
    await send({'type': 'http.response.body', 'body': str(os.getpid()).encode()})
"#;

fn serve(folder: &Folder, io: Io, interface: &str, keys: &str) -> Server {
    let path = folder.join("app");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    let mount = format!(
        "[[site.mount]]\npath = \"/run\"\n{interface} = \"app\"\npython = \"/usr/bin/python3\"\n\
         python-folder = {path:?}\n{user}timeout = 1\n{keys}"
    );
    start(folder, io, &mount)
}

fn is_replaced(line: &str) -> bool {
    line.contains("replacing a Python process")
        && line.contains("hangs in requests over their time")
}

#[test]
fn a_process_whose_threads_all_hang_is_replaced() {
    let folder = site("stuck-wsgi");
    folder.write("app/app.py", WSGI);
    for io in Io::BOTH {
        let server = serve(&folder, io, "wsgi", "python-threads = 2\n");
        let pid = server.get("/run/").text().to_owned();
        assert_eq!(server.get("/run/hangs").status, 504);
        // The other thread continues.
        assert_eq!(server.get("/run/").text(), pid);
        assert_eq!(server.get("/run/hangs").status, 504);
        server.wait_for_line(0, is_replaced);
        let response = server.get("/run/");
        assert_eq!(response.status, 200);
        assert_ne!(response.text(), pid);
        server.stop();
    }
}

#[test]
fn a_process_whose_event_loop_is_blocked_is_replaced() {
    let folder = site("stuck-asgi");
    folder.write("app/app.py", ASGI);
    for (io, target) in Io::BOTH.into_iter().zip(["/run/blocks", "/run/keeps-the-lock"]) {
        let server = serve(&folder, io, "asgi", "");
        let pid = server.get("/run/").text().to_owned();
        // A task that hangs hangs alone.
        assert_eq!(server.get("/run/waits").status, 504);
        assert_eq!(server.get("/run/").text(), pid);
        assert_eq!(server.get(target).status, 504);
        server.wait_for_line(0, is_replaced);
        let response = server.get("/run/");
        assert_eq!(response.status, 200);
        assert_ne!(response.text(), pid);
        server.stop();
    }
}
