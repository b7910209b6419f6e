//! PHP-FPM as a program of the server: killed, reloaded, in its private folder, as which user.

use crate::php::{ECHO, configure, configured, reload, site, user_flags, user_key};
use pinion_tests::external_programs::program;
use pinion_tests::processes::processes_with;
use pinion_tests::request::Request;
use pinion_tests::response::Response;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Returns the masters of PHP-FPM whose configurations are in a folder, by its name.
fn masters(folder: &Path) -> Vec<u32> {
    let text = format!("master process ({}/", folder.display());
    processes_with(&text)
}

/// Returns the only master. A process that has just been forked has its name for a moment.
#[track_caller]
fn only_master(folder: &Path) -> u32 {
    wait_for("one master", || match masters(folder).as_slice() {
        [master] => Some(*master),
        _ => None,
    })
}

/// Returns the folder of a server with the files of PHP: the server was started in this session.
fn private_folders(session: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(session).expect("a folder").flatten().map(|entry| entry.path());
    let is_private = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pinion-programs-"))
    };
    entries.filter(is_private).collect()
}

/// Requests without pause, from several clients; each is counted.
struct Clients<'s> {
    server: &'s Server,
    is_over: AtomicBool,
    answered: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

/// Sets a flag when it is dropped.
struct Over<'f>(&'f AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Clients<'_> {
    const COUNT: usize = 4;

    /// Sends requests during `act`, and returns the failed ones.
    fn during(server: &Server, act: impl FnOnce(&Clients<'_>)) -> Vec<String> {
        let is_over = AtomicBool::new(false);
        let (answered, failed) = (AtomicUsize::new(0), Mutex::default());
        let clients = Clients { server, is_over, answered, failed };
        thread::scope(|scope| {
            for _ in 0..Self::COUNT {
                scope.spawn(|| clients.run());
            }
            // Also if something fails, or the scope would not end.
            let _over = Over(&clients.is_over);
            clients.wait_for_more();
            act(&clients);
            clients.wait_for_more();
        });
        clients.failed.into_inner().expect("not poisoned")
    }

    fn run(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let request = Request::new("POST", "/").body(b"content");
            let response: Response = self.server.exchange(&request);
            match response.status {
                200 => drop(self.answered.fetch_add(1, Ordering::Relaxed)),
                _ => self.failed.lock().expect("not poisoned").push(response.to_string()),
            }
        }
    }

    /// Waits until requests that begin after the call have got responses.
    fn wait_for_more(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        wait_for("responses", || {
            (self.answered.load(Ordering::Relaxed) > before + 3 * Self::COUNT).then_some(())
        });
    }
}

/// The master is killed: requests in flight fail, and those that come meanwhile wait for the next
/// one.
#[test]
fn php_that_is_killed_is_started_again() {
    let session = Folder::new("php-session");
    let folder = site("php-killed", &[("index.php", "<?php usleep(2000); echo 'ok';")]);
    let start = Start::site(&folder.join("public")).flags(user_flags()).session(session.path());
    let processes = Clients::COUNT.to_string();
    let server = start.flags(&["--php-processes", &processes]).start();
    assert_eq!(server.get("/").text(), "ok");
    let failed = Clients::during(&server, |clients| {
        let old = vec![only_master(session.path())];
        let pid = Pid::from_raw(old[0] as i32).expect("a process");
        kill_process(pid, Signal::KILL).expect("killed");
        wait_for("another master", || {
            let now = masters(session.path());
            (now.len() == 1 && now != old).then_some(())
        });
        clients.wait_for_more();
    });
    // There is one failure for each killed process, and those that waited for the last one.
    assert!(failed.len() <= 2 * Clients::COUNT, "{failed:?}");
    server.stop();
    assert!(masters(session.path()).is_empty());
}

#[test]
fn a_reload_changes_php_without_a_failed_request() {
    let session = Folder::new("php-session");
    let script = "<?php usleep(2000); echo ini_get('post_max_size'), ' ', 'ok';";
    let folder = site("php-reload", &[("index.php", script)]);
    let server = configured(&folder, user_key()).session(session.path()).start();
    assert_eq!(server.get("/").text(), "16777216 ok");
    let failed = Clients::during(&server, |clients| {
        let old = vec![only_master(session.path())];
        // Nothing has changed for PHP.
        configure(&folder, &format!("{}etag = false", user_key()));
        assert!(reload(&server).starts_with("reloaded"));
        clients.wait_for_more();
        assert_eq!(only_master(session.path()), old[0]);
        configure(&folder, &format!("{}php-upload-limit = \"1M\"", user_key()));
        assert!(reload(&server).starts_with("reloaded"));
        wait_for("another master alone", || {
            let now = masters(session.path());
            (now.len() == 1 && now != old).then_some(())
        });
        assert_eq!(server.get("/").text(), "1048576 ok");
    });
    assert_eq!(failed, Vec::<String>::new());
    // A mistake changes nothing.
    let old = only_master(session.path());
    configure(&folder, &format!("{}php-fpm = \"/bin/false\"", user_key()));
    assert!(reload(&server).contains("keeping the previous version"));
    assert_eq!((server.get("/").text(), only_master(session.path())), ("1048576 ok", old));
    // Without PHP its scripts are missing, not shown.
    configure(&folder, "php = false");
    assert!(reload(&server).starts_with("reloaded"));
    assert_eq!(server.get("/index.php").status, 404);
    wait_for("no master", || masters(session.path()).is_empty().then_some(()));
    server.stop();
}

/// Sockets are for the server alone, each server has its own, and nothing is left.
#[test]
fn each_server_has_its_own_private_folder() {
    let session = Folder::new("php-session");
    let folder = site("php-private", &[("index.php", ECHO)]);
    let start = || {
        let start = Start::site(&folder.join("public")).flags(user_flags());
        start.session(session.path()).start()
    };
    let (first, second) = (start(), start());
    for server in [&first, &second] {
        assert_eq!(server.get("/").status, 200);
    }
    let folders = private_folders(session.path());
    assert_eq!(folders.len(), 2, "{folders:?}");
    for folder in &folders {
        let mode = |path: &Path| path.metadata().expect("there").permissions().mode() & 0o777;
        let socket = folder.join("php-fpm.sock");
        assert_eq!((mode(folder), mode(&socket)), (0o700, 0o600));
        assert!(socket.metadata().expect("there").file_type().is_socket());
        assert_eq!(mode(&folder.join("php-fpm.conf")), 0o600);
    }
    first.stop();
    assert_eq!(private_folders(session.path()).len(), 1);
    assert_eq!(second.get("/").status, 200);
    // The next server removes the files that a killed server leaves.
    let mut second = second;
    second.signal(Signal::KILL);
    second.wait();
    wait_for("the end of PHP", || masters(session.path()).is_empty().then_some(()));
    assert_eq!(private_folders(session.path()).len(), 1);
    let third = start();
    assert_eq!(private_folders(session.path()).len(), 1);
    third.stop();
    assert!(private_folders(session.path()).is_empty());
}

/// A server without privileges runs PHP as its own user.
#[test]
fn a_server_that_is_not_root_runs_php_as_itself() {
    if !geteuid().is_root() {
        return;
    }
    let folder = site("php-unprivileged", &[("index.php", ECHO)]);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("set");
    let mut other = program("setpriv", "util-linux");
    other.args(["--reuid", "www-data", "--regid", "www-data", "--clear-groups"]);
    let server = Start::site(&folder.join("public")).under(other).start();
    assert_eq!(server.get("/a").text(), "ran index.php /index.php none  33");
    server.wait_for_line(0, |line| line.contains("as the user of the server (33)"));
    server.stop();
}

/// Each site has its own PHP, and other sites have none.
#[test]
fn several_sites_have_php() {
    let folder = site("php-sites", &[("index.php", ECHO)]);
    folder.write("other/index.php", "<?php echo 'other ', ini_get('post_max_size');");
    folder.write("static/index.html", "static");
    let keys = user_key();
    let text = format!(
        "[[site]]\npath = \"public\"\nhosts = [\"a.test\"]\n{keys}[[site]]\npath = \"other\"\n\
         hosts = [\"b.test\"]\nphp-upload-limit = \"2M\"\n{keys}[[site]]\npath = \"static\"\n"
    );
    folder.write("pinion.toml", text);
    let server = Start::site(&folder.join("pinion.toml")).start();
    let get = |host: &str| {
        server.exchange(&Request::get("/").hostless().field("Host", host)).text().to_owned()
    };
    assert!(get("a.test").starts_with("ran index.php"), "{}", get("a.test"));
    assert_eq!((get("b.test"), get("c.test")), ("other 2097152".into(), "static".into()));
    server.stop();
}
