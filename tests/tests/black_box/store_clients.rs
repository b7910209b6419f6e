//! `--store`: clients of Redis with their default options.

use pinion_tests::external_programs::{
    go_program, node_packages, output, program, python_package, stdout,
};
use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// The steps of a client, each of which raises an error if it fails.
const REDIS_PY: &str = r"
import sys, redis
for protocol in (2, 3):
    client = redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True)
    client.flushall()
    assert client.ping() and client.get('a') is None
    assert client.set('a', 1, ex=100) and client.incr('a') == 2 and client.ttl('a') == 100
    assert client.set('a', 3, nx=True) is None and client.exists('a', 'b') == 1
    pipe = client.pipeline()
    for number in range(1000):
        pipe.set(f'key:{number}', 'x' * number)
    assert all(pipe.execute())
    assert len(list(client.scan_iter('key:*', count=100))) == 1000
    assert client.mget('key:5', 'key:none') == ['xxxxx', None]
    client.set('large', 'y' * 3_000_000)
    assert client.get('large') == 'y' * 3_000_000

    def bump(pipe):
        value = int(pipe.get('a'))
        pipe.multi()
        pipe.set('a', value + 1)
    client.transaction(bump, 'a')
    assert client.get('a') == '3'
    try:
        client.execute_command('NOTHING')
    except redis.ResponseError as error:
        assert str(error).startswith('unknown command')
    assert client.info()['redis_mode'] == 'standalone'
    assert client.client_list()[0]['lib-name'].startswith('redis-py')
    assert client.config_get('maxmemory-policy') == {'maxmemory-policy': 'noeviction'}
    client.close()
print('ok')
";

const NODE: &str = r"
import assert from 'node:assert/strict';
import Redis from 'ioredis';
import { createClient } from 'redis';
const port = Number(process.argv[2]);
process.on('warning', (warning) => { throw warning; });

const io = new Redis({ port });
await io.flushall();
assert.equal(await io.set('a', '1'), 'OK');
assert.equal(await io.incr('a'), 2);
const results = await io.pipeline().set('b', 'x').get('b').get('c').exec();
assert.deepEqual(results, [[null, 'OK'], [null, 'x'], [null, null]]);
assert.deepEqual(await io.multi().incr('a').get('a').exec(), [[null, 3], [null, '3']]);
await io.quit();

for (const RESP of [2, 3]) {
    const client = createClient({ socket: { port }, RESP });
    client.on('error', (error) => { throw error; });
    await client.connect();
    assert.equal(await client.set('a', 'value', { expiration: { type: 'EX', value: 10 } }), 'OK');
    assert.equal(await client.get('a'), 'value');
    assert.deepEqual(await client.multi().set('n', '1').incr('n').exec(), ['OK', 2]);
    await client.close();
}
console.log('ok');
";

/// Starts a server with a store; returns it with the port of the store.
fn start(folder: &Folder, io: Io, flags: &[&str]) -> (Server, u16) {
    folder.write("site/index.html", "a site");
    let flags = [&["--io", io.as_str(), "--store", "127.0.0.1:0"], flags].concat();
    let server = Start::site(&folder.join("site")).flags(&flags).start();
    let port = listening_port(&server, "listening redis://");
    (server, port)
}

/// Returns the port in the line of a start that begins like this.
fn listening_port(server: &Server, begin: &str) -> u16 {
    let lines = server.lines();
    let line = lines.iter().find(|line| line.starts_with(begin)).expect(begin);
    let port = line.trim_end_matches('/').rsplit(':').next().and_then(|port| port.parse().ok());
    port.expect("a port")
}

fn cli(port: u16) -> Command {
    let mut command = program("redis-cli", "redis-tools");
    command.args(["-p", &port.to_string()]);
    command
}

/// Returns the output of redis-cli for a command.
fn says(command: &mut Command, words: &str) -> String {
    String::from_utf8(stdout(command.args(words.split(' ')))).expect("text").trim().to_owned()
}

#[test]
fn redis_cli_and_redis_benchmark_find_a_server() {
    for io in Io::BOTH {
        let folder = Folder::new("store-cli");
        let (server, port) = start(&folder, io, &[]);
        assert_eq!(says(&mut cli(port), "SET a 1"), "OK");
        assert_eq!(says(cli(port).arg("-3"), "GET a"), "1");
        assert_eq!(says(cli(port).args(["-n", "3"]), "GET a"), "");
        assert!(says(&mut cli(port), "INFO server").contains("redis_mode:standalone"));
        let mut benchmark = program("redis-benchmark", "redis-tools");
        let benchmark = benchmark.args(["-p", &port.to_string(), "-q", "-n", "20000", "-P", "16"]);
        let report = String::from_utf8(stdout(benchmark.args(["-t", "set,get,incr"])));
        assert!(report.expect("text").contains("GET: "));
        // The site is served, too.
        assert_eq!(server.get("/").text(), "a site");
        server.stop();
    }
}

#[test]
fn redis_py_connects_with_its_defaults() {
    let folder = Folder::new("store-python");
    let packages = python_package("redis");
    folder.write("client.py", REDIS_PY);
    for io in Io::BOTH {
        let (server, port) = start(&folder, io, &[]);
        let mut python = program("python3", "python3");
        let python = python
            .args(["-W", "error"])
            .env("PYTHONPATH", packages.parent().expect("a folder"))
            .arg(folder.join("client.py"))
            .arg(port.to_string());
        assert_eq!(String::from_utf8_lossy(&stdout(python)), "ok\n");
        server.stop();
    }
}

#[test]
fn ioredis_and_node_redis_connect_with_their_defaults() {
    let folder = Folder::new("store-node");
    symlink(node_packages(), folder.join("node_modules")).expect("a link");
    folder.write("client.mjs", NODE);
    for io in Io::BOTH {
        let (server, port) = start(&folder, io, &[]);
        let mut node = program("node", "nodejs");
        let node = node.arg(folder.join("client.mjs")).arg(port.to_string());
        assert_eq!(String::from_utf8_lossy(&stdout(node)), "ok\n");
        server.stop();
    }
}

#[test]
fn go_redis_connects_with_its_defaults() {
    let folder = Folder::new("store-go");
    for io in Io::BOTH {
        let (server, port) = start(&folder, io, &[]);
        let output = output(go_program("go_redis").arg(format!("127.0.0.1:{port}")));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n");
        server.stop();
    }
}

#[test]
fn a_store_has_a_password_a_limit_and_other_listeners() {
    let folder = Folder::new("store-listeners");
    folder.write("password", "open sesame\n");
    let (password, socket) = (folder.join("password"), folder.join("store.sock"));
    let (password, unix) = (shown(&password), format!("unix:{}", socket.display()));
    let flags = ["--store-password", &password, "--store-memory", "64"];
    let flags = [&flags[..], &["--store-eviction", "allkeys-lru"]].concat();
    let flags = [&flags[..], &["--store", &unix, "--store-tls", "127.0.0.1:0"]].concat();
    let (server, port) = start(&folder, Io::BOTH[0], &flags);
    assert_eq!(says(&mut cli(port), "GET a"), "NOAUTH Authentication required.");
    let authenticated = || {
        let mut command = cli(port);
        command.args(["--no-auth-warning", "-a", "open sesame"]);
        command
    };
    assert_eq!(says(&mut authenticated(), "SET a 1"), "OK");
    let limits = says(&mut authenticated(), "CONFIG GET maxmemory*");
    let expected = [("maxmemory", "67108864"), ("maxmemory-clients", "67108864")];
    let expected = expected.map(|(name, value)| format!("{name}\n{value}\n")).concat();
    assert_eq!(limits, format!("{expected}maxmemory-policy\nallkeys-lru"));
    let mut local = program("redis-cli", "redis-tools");
    let local = local.args(["--no-auth-warning", "-a", "open sesame", "-s"]).arg(&socket);
    assert_eq!(says(local, "GET a"), "1");
    let tls = listening_port(&server, "listening rediss://").to_string();
    let mut secured = program("redis-cli", "redis-tools");
    let secured = secured.args(["--tls", "--insecure", "-p", &tls]);
    assert_eq!(says(secured.args(["--no-auth-warning", "-a", "open sesame"]), "GET a"), "1");
    server.stop();
}

fn shown(path: &Path) -> String {
    path.to_str().expect("text").to_owned()
}

#[test]
fn a_store_on_a_public_address_needs_a_password() {
    let folder = Folder::new("store-open");
    folder.write("site/index.html", "a site");
    let site = shown(&folder.join("site"));
    for address in ["0.0.0.0:0", ":6379", "example.org:6379"] {
        let ended = run(&["serve", &site, "--store", address]);
        assert_eq!(ended.code, Some(2));
        assert!(ended.stderr.contains("give --store-password FILE"), "{}", ended.stderr);
    }
    let ended = run(&["serve", &site, "--store-eviction", "allkeys-lru"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("has no effect without --store"), "{}", ended.stderr);
    fs::write(folder.join("password"), "\n").expect("written");
    let password = shown(&folder.join("password"));
    let ended = run(&["serve", &site, "--store", "127.0.0.1:0", "--store-password", &password]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("the file has to have one line"), "{}", ended.stderr);
}

/// A page can make a browser send a request to any port; its lines are not executed as commands.
#[test]
fn requests_of_browsers_are_refused() {
    let folder = Folder::new("store-browser");
    let (server, port) = start(&folder, Io::BOTH[0], &[]);
    let mut curl = program("curl", "curl");
    let url = format!("http://127.0.0.1:{port}/");
    let output = curl.args(["--silent", "--http0.9", "--data", "FLUSHALL\r\n", &url]).output();
    let said = String::from_utf8_lossy(&output.expect("curl").stdout).into_owned();
    assert!(said.contains("this is not an HTTP server") && !said.contains("OK"), "{said}");
    server.stop();
}
