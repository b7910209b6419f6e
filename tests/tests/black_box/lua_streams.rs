//! Responses that handlers write piece by piece, and content that they read in pieces, over every
//! protocol: a client that does not read delays only its own handler, and a reload interrupts
//! nothing.
//!
//! No case depends on time: the progress of a response is determined by the bytes that its client
//! has read.

use pinion_tests::body::noise;
use pinion_tests::client::Client;
use pinion_tests::client::open_exchanges::Underway;
use pinion_tests::lua_script_site::script;
use pinion_tests::matrix::ways;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{SetAtEnd, wait_for};
use rustix::process::Signal;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Bytes of a single write of a handler.
const PIECE_BYTES: usize = 16 << 10;

/// Returns the most bytes between a handler and a client that does not read, and the bytes that are
/// written in addition. Over HTTP/2 and HTTP/3 these are the window of the stream and its queue in
/// the server, 64 KiB. Over HTTP/1 they are the queue of a connection, 256 KiB, and the buffers of
/// the kernel for both ends.
fn between_bytes(protocol: Protocol) -> usize {
    if !protocol.is_http1() {
        return 256 << 10;
    }
    let limits = fs::read_to_string("/proc/sys/net/ipv4/tcp_wmem").expect("its limits");
    let most = limits.split_whitespace().last().expect("the largest");
    (1 << 20) + most.parse::<usize>().expect("a number")
}

/// An open response, and the connection that it uses.
struct Stream {
    line: usize,
    underway: Underway,
}

/// Connections with small buffers. With HTTP/2 and HTTP/3 all exchanges are on the first of them;
/// with HTTP/1 each open response has its own connection.
struct Lines<'a> {
    server: &'a Server,
    /// `None` for a closed connection.
    clients: Vec<Option<Client>>,
}

impl<'a> Lines<'a> {
    fn new(server: &'a Server) -> Lines<'a> {
        Lines { server, clients: vec![Some(Client::with_little_room(server))] }
    }

    fn begin(&mut self, target: &str) -> Stream {
        if self.server.protocol().is_http1() {
            self.clients.push(Some(Client::with_little_room(self.server)));
        }
        let line = self.clients.len() - 1;
        let underway = self.client(line).begin(&Request::get(target));
        Stream { line, underway }
    }

    fn take<'b>(&'b mut self, stream: &'b mut Stream, bytes: usize) -> &'b [u8] {
        let client = self.clients[stream.line].as_mut().expect("nobody has left it");
        client.take(&mut stream.underway, bytes)
    }

    /// Cancels a response; over HTTP/1 this closes the connection.
    fn stop(&mut self, stream: Stream) {
        if self.server.protocol().is_http1() {
            self.clients[stream.line] = None;
        } else {
            self.client(stream.line).stop(stream.underway);
        }
    }

    fn client(&mut self, line: usize) -> &mut Client {
        self.clients[line].as_mut().expect("nobody has left it")
    }

    /// Sends other requests meanwhile and checks their responses.
    fn ask_others(&mut self) {
        for _ in 0..20 {
            let response = self.client(0).exchange(&Request::get("/other"));
            assert_eq!((response.status, response.text()), (200, "other"));
        }
    }

    fn live(&mut self) -> Live {
        Live::of(self.client(0))
    }
}

/// The handlers with endless responses, and the bytes that they have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Live {
    handlers: usize,
    written_bytes: usize,
}

impl Live {
    fn of(client: &mut Client) -> Live {
        let response = client.exchange(&Request::get("/live"));
        let (handlers, pieces) = response.text().split_once(' ').expect("two numbers");
        let number = |text: &str| text.parse::<usize>().expect("a number");
        Live { handlers: number(handlers), written_bytes: number(pieces) * PIECE_BYTES }
    }
}

/// A handler that was cut off is garbage, which is collected when more garbage is made.
const ENDLESS: &str = r#"
local live = setmetatable({}, { __mode = "k" })
pinion.get("/endless", function(req, res)
    local own = { pieces = 0 }
    live[own] = true
    while true do
        res:write(("%07d\n"):format(own.pieces):rep(2048))
        own.pieces = own.pieces + 1
    end
end)
local made = 0
pinion.get("/live", function()
    made = made + 1
    local _ = (("%016d"):format(made)):rep(2 ^ 16)
    local handlers, pieces = 0, 0
    for own in pairs(live) do
        handlers, pieces = handlers + 1, pieces + own.pieces
    end
    return handlers .. " " .. pieces
end)
pinion.get("/other", function() return "other" end)
"#;

/// Endless responses that are open at the same time.
const STREAMS: usize = if cfg!(feature = "long") { 32 } else { 4 };
/// How often the clients read more than all buffers together can hold.
const ROUNDS: usize = if cfg!(feature = "long") { 16 } else { 2 };

/// Returns whether content begins with the pieces of an endless response, complete and in their
/// order.
fn is_endless(content: &[u8]) -> bool {
    content.chunks(PIECE_BYTES).enumerate().all(|(number, piece)| {
        let line = format!("{number:07}\n").into_bytes();
        piece.chunks(line.len()).all(|part| line.starts_with(part))
    })
}

/// `res:write` waits while the client is slower than the handler (docs/lua.md): the server keeps a
/// bounded part of a response of any length. The handler continues when its client reads, and ends
/// when its client disconnects.
#[test]
fn back_pressure_stops_an_endless_handler() {
    let (_folder, path) = script(ENDLESS);
    for way in ways(|_| true) {
        eprintln!("{way:?}"); // Shown when the case fails.
        let flags = ["--workers", "1", "--lua-cpu", "60000", "--lua-time", "3600"];
        let server = Start::site(&path).in_way(way).flags(&flags).start();
        held_up(&server);
        server.stop();
    }
}

fn held_up(server: &Server) {
    let between_bytes = between_bytes(server.protocol());
    let mut lines = Lines::new(server);
    let mut streams: Vec<Stream> = (0..STREAMS).map(|_| lines.begin("/endless")).collect();
    for round in 0..=ROUNDS {
        let bytes = PIECE_BYTES + round * (between_bytes + (1 << 20));
        let mut taken_bytes = 0;
        for stream in &mut streams {
            let content = lines.take(stream, bytes);
            assert!(is_endless(content), "round {round}");
            taken_bytes += content.len();
            lines.ask_others();
        }
        // The handlers stop.
        let mut before = lines.live();
        let held = wait_for("handlers that wait", || {
            lines.ask_others();
            let now = lines.live();
            let is_held = std::mem::replace(&mut before, now) == now;
            is_held.then_some(now)
        });
        assert_eq!(held.handlers, STREAMS);
        let most_bytes = taken_bytes + STREAMS * between_bytes;
        assert!(held.written_bytes <= most_bytes, "{held:?}, and {taken_bytes} were taken");
    }
    let most_bytes = server.memory_bytes("VmHWM");
    assert!(most_bytes < (48 + STREAMS as u64) << 20, "{most_bytes} bytes of memory");
    // The handlers of clients that disconnect end, and the others continue.
    for stream in streams.drain(..STREAMS / 2) {
        lines.stop(stream);
    }
    let is_left = |live: Live, handlers| (live.handlers == handlers).then_some(());
    wait_for("half of the handlers", || is_left(lines.live(), STREAMS - STREAMS / 2));
    for stream in &mut streams {
        let bytes = lines.take(stream, 0).len() + between_bytes;
        assert!(is_endless(lines.take(stream, bytes)));
    }
    drop((lines, streams));
    let mut client = server.client();
    wait_for("no handler", || is_left(Live::of(&mut client), 0));
    let lines = server.lines();
    assert!(!lines.iter().any(|line| line.contains("/endless")), "{lines:?}");
}

/// Reloads after the first script: each worker keeps this many earlier scripts until they have
/// ended (docs/lua.md), so that nothing is interrupted.
const RELOADS: usize = 4;
const WORKERS: usize = 2;
/// Streams and uploads of each edition at each worker.
const AT_ONCE: usize = if cfg!(feature = "long") { 6 } else { 1 };

/// Returns a script whose responses all contain its edition. The names of workers outlive it.
fn edition(number: usize) -> String {
    format!("local edition = '{number}'\n{EDITION}")
}

const EDITION: &str = r#"
local keep = pinion.keep
keep.worker = keep.worker or pinion.codec.hex_encode(pinion.crypto.random(8))
pinion.get("/edition", function() return edition .. " " .. keep.worker end)
pinion.get("/stream/:pieces", function(req, res)
    for piece = 1, tonumber(req.params.pieces) do
        res:write(("%s %05d\n"):format(edition, piece % 100000):rep(2048))
    end
    pinion.log("a stream ends")
end)
pinion.post("/echo", function(req, res)
    res:write(edition, "\n"):flush()
    for piece in req:pieces(10000) do res:write(piece):flush() end
    res:write("\n", edition)
end)
"#;

/// Returns the response of an echo: half of the content arrives before the reloads, half after
/// them.
const UPLOAD_BYTES: usize = 50_000;

fn echo(edition: usize) -> Vec<u8> {
    let edition = edition.to_string();
    [edition.as_bytes(), b"\n", &noise(UPLOAD_BYTES), b"\n", edition.as_bytes()].concat()
}

fn stream(edition: usize, pieces: usize) -> Vec<u8> {
    let piece = |number: usize| format!("{edition} {number:05}\n").repeat(2048);
    (1..=pieces).flat_map(|number| piece(number).into_bytes()).collect()
}

/// Returns the edition and the worker that respond to a client.
fn answered_by(client: &mut Client) -> (usize, String) {
    let response = client.exchange(&Request::get("/edition"));
    assert_eq!(response.status, 200, "{response}");
    let (edition, worker) = response.text().split_once(' ').expect("two words");
    (edition.parse().expect("a number"), worker.to_owned())
}

/// A stream or an upload that has begun with an edition, and its connection.
struct Begun {
    edition: usize,
    line: usize,
    is_upload: bool,
    underway: Underway,
}

/// The open exchanges of a client at one of the workers. With HTTP/2 and HTTP/3 they are on its
/// first connection.
struct Visitor<'a> {
    server: &'a Server,
    worker: String,
    clients: Vec<Client>,
    begun: Vec<Begun>,
    /// Pieces of each stream: more than the handler can write while the client does not read.
    pieces: usize,
}

impl<'a> Visitor<'a> {
    /// Returns one visitor for each worker.
    fn all(server: &'a Server) -> Vec<Visitor<'a>> {
        let mut found = HashMap::new();
        // A worker with more connections accepts fewer, so these stay open until all workers are
        // reached.
        let mut others = Vec::new();
        wait_for("all workers", || {
            let mut client = Client::with_little_room(server);
            let (_, worker) = answered_by(&mut client);
            match found.entry(worker) {
                Entry::Vacant(place) => drop(place.insert(client)),
                Entry::Occupied(_) => others.push(client),
            }
            (found.len() == WORKERS).then_some(())
        });
        let pieces = (between_bytes(server.protocol()) + (1 << 20)) / PIECE_BYTES;
        let visitor = |(worker, client)| Visitor {
            server,
            worker,
            clients: vec![client],
            begun: Vec::new(),
            pieces,
        };
        found.into_iter().map(visitor).collect()
    }

    /// Returns the connection for another exchange.
    fn line(&mut self) -> usize {
        if self.server.protocol().is_http1() {
            let mut others = Vec::new();
            let own = wait_for("this worker", || {
                let mut client = Client::with_little_room(self.server);
                let is_own = answered_by(&mut client).1 == self.worker;
                if is_own {
                    Some(client)
                } else {
                    others.push(client);
                    None
                }
            });
            self.clients.push(own);
        }
        self.clients.len() - 1
    }

    /// Begins a stream and an upload as soon as the worker has this edition.
    fn begin(&mut self, edition: usize) {
        wait_for("an edition", || (answered_by(&mut self.clients[0]).0 == edition).then_some(()));
        let line = self.line();
        let client = &mut self.clients[line];
        let mut underway = client.begin(&Request::get(&format!("/stream/{}", self.pieces)));
        let first = client.take(&mut underway, PIECE_BYTES);
        assert!(first.starts_with(&stream(edition, 1)), "the first piece of {edition}");
        self.begun.push(Begun { edition, line, is_upload: false, underway });
        let line = self.line();
        let client = &mut self.clients[line];
        let mut underway = client.begin_upload(&Request::new("POST", "/echo"));
        let (half, back) = (UPLOAD_BYTES / 2, echo(edition));
        client.send(&mut underway, &noise(half));
        // The handler has read all of it and waits for more.
        let first = client.take(&mut underway, 2 + half);
        assert!(first == &back[..2 + half], "half of the echo by {edition}");
        self.begun.push(Begun { edition, line, is_upload: true, underway });
    }

    /// Completes the open exchanges, while other requests get their responses from this edition.
    fn finish(&mut self, last: usize) {
        for begun in self.begun.drain(..) {
            let Begun { edition, line, is_upload, underway } = begun;
            assert_eq!(answered_by(&mut self.clients[0]), (last, self.worker.clone()));
            let (rest, expected) = if is_upload {
                (&noise(UPLOAD_BYTES)[UPLOAD_BYTES / 2..], echo(edition))
            } else {
                (&[][..], stream(edition, self.pieces))
            };
            let response = self.clients[line].finish(underway, rest);
            assert_eq!(response.status, 200, "of {edition}, an upload: {is_upload}");
            assert!(response.body == expected, "of {edition}, an upload: {is_upload}");
        }
        // Each connection uses the new script afterwards.
        for client in &mut self.clients {
            assert_eq!(answered_by(client), (last, self.worker.clone()));
        }
    }
}

/// Sends requests without pause, on persistent and on new connections. None fails, and no worker
/// returns to an earlier script.
fn ask_on(server: &Server, is_over: &AtomicBool) {
    let (mut latest, mut client) = (HashMap::new(), server.client());
    let upload = Request::new("POST", "/echo").body(&noise(UPLOAD_BYTES));
    let editions: Vec<Vec<u8>> = (0..=RELOADS).map(echo).collect();
    for turn in 0_u32.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        if turn % 4 == 0 {
            client = server.client();
        }
        let (edition, worker) = answered_by(&mut client);
        let before = latest.insert(worker, edition).unwrap_or(0);
        assert!(edition >= before, "{edition} behind {before}");
        let response = client.exchange(&upload);
        assert_eq!(response.status, 200, "{response}");
        let by = editions.iter().position(|whole| *whole == response.body);
        assert!(by.is_some_and(|by| by >= edition), "an echo by {by:?} behind {edition}");
        // A busy loop would only take CPU time from the reloads.
        thread::sleep(Duration::from_millis(2));
    }
}

/// Requests that have begun end with the old script (docs/lua.md), over every protocol: those that
/// wait for their client, and those whose content is still arriving. Requests after a reload are
/// handled by the new script.
#[test]
fn requests_end_with_the_script_that_they_began_with() {
    for way in ways(|_| true) {
        eprintln!("{way:?}"); // Shown when the case fails.
        let (folder, path) = script(&edition(0));
        let flags = ["--workers", &WORKERS.to_string(), "--lua-time", "3600"];
        let server = Start::site(&path).in_way(way).flags(&flags).start();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _over = SetAtEnd(&is_over);
            scope.spawn(|| ask_on(&server, &is_over));
            across_reloads(&server, &folder);
        });
        let lines = server.lines();
        assert!(!lines.iter().any(|line| line.contains("replaced too often")), "{lines:?}");
        server.stop();
    }
}

fn across_reloads(server: &Server, folder: &Folder) {
    let ended = || server.lines().iter().filter(|line| line.contains("a stream ends")).count();
    let mut visitors = Visitor::all(server);
    for number in 0..RELOADS {
        for visitor in &mut visitors {
            (0..AT_ONCE).for_each(|_| visitor.begin(number));
        }
        folder.write("next.lua", edition(number + 1));
        fs::rename(folder.join("next.lua"), folder.join("site.lua")).expect("renamed");
        let from = server.lines().len();
        server.signal(Signal::HUP);
        server.wait_for_line(from, |line| line.starts_with("reloaded"));
    }
    for visitor in &mut visitors {
        let is_last = |client: &mut Client| (answered_by(client).0 == RELOADS).then_some(());
        wait_for("the last edition", || is_last(&mut visitor.clients[0]));
    }
    assert_eq!(ended(), 0, "streams that nobody has read");
    for visitor in &mut visitors {
        visitor.finish(RELOADS);
    }
    let all = RELOADS * WORKERS * AT_ONCE;
    wait_for("the end of each stream", || (ended() == all).then_some(()));
}
