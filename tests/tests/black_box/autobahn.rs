//! WebSockets of ASGI applications as Autobahn's test suite tries them.

use pinion_tests::external_programs::{output_within, python_program, python_source};
use pinion_tests::matrix::Io;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

/// Groups of cases: framing, pings, reserved bits, opcodes, fragments, UTF-8, closing, and
/// fragments made by the client.
const SHORT_GROUPS: &str = "1,2,3,4,5,6,7,10";
/// These, large messages (9), and compressed ones (12, 13), which take minutes.
const ALL_GROUPS: &str = "1,2,3,4,5,6,7,9,10,12,13";

const GROUPS: &str = if cfg!(feature = "long") { ALL_GROUPS } else { SHORT_GROUPS };
const CASES: usize = if cfg!(feature = "long") { 517 } else { 247 };
/// This is not a statement about speed: it ends the wait for a client that does not end.
const PATIENCE: Duration = Duration::from_secs(if cfg!(feature = "long") { 3000 } else { 240 });

/// The allowed outcomes of a case and of its connection. A connection that fails before an earlier
/// message was returned is not strict: the server does not wait for the application then. A case
/// that the protocol leaves to the server is informational.
const PASSED: [&str; 3] = ["OK|OK", "NON-STRICT|OK", "INFORMATIONAL|INFORMATIONAL"];

/// Numbers of cases that fail, each with the reason.
const MISSES: [(&str, &str); 0] = [];

const APPLICATION: &str = "
async def app(scope, receive, send):
    if scope['type'] != 'websocket':
        raise NotImplementedError(scope['type'])
    await receive()
    await send({'type': 'websocket.accept'})
    while True:
        message = await receive()
        if message['type'] == 'websocket.disconnect':
            return
        message['type'] = 'websocket.send'
        await send(message)
";

#[test]
fn every_autobahn_case_has_its_expected_result() {
    let folder = Folder::new("autobahn");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    folder.write("main.py", APPLICATION);
    let user: &[&str] = if geteuid().is_root() { &["--python-user", "nobody"] } else { &[] };
    let suite = python_source("autobahntestsuite").join("autobahntestsuite");
    for io in Io::BOTH {
        let start = Start::site(&folder.join("main.py")).flags(&["--io", io.as_str()]);
        let server = start.flags(&["--python", "/usr/bin/python3"]).flags(user).start();
        let mut client = python_program("python");
        client.args(["-c", include_str!("../../src/autobahn_client.py")]).arg(&suite);
        client.arg(format!("ws://{}/", server.address())).arg(GROUPS);
        let output = output_within(&mut client, PATIENCE);
        let complaint = String::from_utf8_lossy(&output.stderr);
        let said = String::from_utf8_lossy(&output.stdout);
        let is_expected = |line: &&str| {
            let (number, rest) = line.split_once('|').unwrap_or_default();
            let is_miss = MISSES.iter().any(|(miss, _)| *miss == number);
            is_miss != PASSED.iter().any(|passed| rest.starts_with(&format!("{passed} ")))
        };
        let expected = said.lines().filter(is_expected).count();
        let others: Vec<_> = said.lines().filter(|line| !is_expected(line)).collect();
        assert_eq!(others, [""; 0], "{io:?}: {expected} of {CASES} as expected\n{complaint}");
        assert_eq!(expected, CASES, "{io:?}\n{complaint}");
        server.stop();
    }
}
