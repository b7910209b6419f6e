//! A site with scripts and little memory: in a control group of 128 MiB the defaults are so small
//! that clients who use all resources do not cause the server to be killed, and from 256 MiB on
//! they fit into a quarter.

use pinion_tests::client::Connection;
use pinion_tests::client::byte_stream::Peer;
use pinion_tests::floods::{Flood, HTTP2, Leave};
use pinion_tests::matrix::Io;
use pinion_tests::memory_cgroup::MemoryGroup;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::fs;
use std::thread;

/// The memory of a small container.
const GROUP_BYTES: u64 = 128 << 20;
/// The least memory of which a quarter is enough, with TLS and HTTP/3 too.
const ENOUGH_BYTES: u64 = 256 << 20;

/// A script whose handlers use as much as possible of each resource.
const SITE: &str = r#"
local large = ("x"):rep(2 ^ 19)
pinion.get("/", function() return "home" end)
pinion.get("/hog", function()
    local list = {}
    for i = 1, 1e6 do list[i] = ("y"):rep(2 ^ 16) .. i end
    return "never"
end)
pinion.get("/keep", function()
    for i = 1, 1000 do assert(pinion.keep("k" .. i, large)) end
end)
pinion.get("/send", function()
    for i = 1, 1000 do assert(pinion.send("channel", large)) end
end)
pinion.on("channel", function() pinion.sleep(1) end)
pinion.get("/files", function()
    for i = 1, 1000 do
        pinion.spawn(function() pinion.fs.write("data/f" .. i % 8, large) end)
    end
    pinion.sleep(0.2)
    return "written"
end)
pinion.get("/read", function() return tostring(pinion.fs.read("data/large") or "too large") end)
pinion.get("/password", function() return pinion.password.hash("secret") end)
pinion.get("/verify", function()
    -- As a server with more memory makes them.
    local stored = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$" ..
        "DDmMNTxvZx0BgoH0dcuwD96Zb+P4nbsUWo4jHh4Cgrg"
    return tostring(pinion.password.verify("other", stored))
end)
pinion.post("/body", function(req) return tostring(#req:body()) end)
pinion.get("/stream", function(req, res)
    for i = 1, 1000 do res:write(large) end
end)
"#;

/// Targets that use much memory, several at once.
const GREEDY: &[&str] = &["/hog", "/keep", "/send", "/files", "/read", "/password", "/stream"];

struct Served {
    server: Server,
    group: MemoryGroup,
    _files: Folder,
}

impl Served {
    fn start(io: Io) -> Served {
        Self::start_in(GROUP_BYTES, &["--io", io.as_str()])
    }

    fn start_in(group_bytes: u64, flags: &[&str]) -> Served {
        let files = Folder::with("little-memory", [("site/main.lua", SITE)]);
        fs::create_dir(files.join("data")).expect("a folder");
        files.write("data/large", vec![b'x'; 15 << 20]);
        let group = MemoryGroup::new(group_bytes);
        let data = format!("data={}", files.join("data").display());
        let start = Start::site(&files.join("site")).flags(flags);
        let state = files.join("state").display().to_string();
        let start = start.flags(&["--lua-folder", &data, "--state", &state]);
        let server = start.grace(1).under(group.runner()).start();
        Served { server, group, _files: files }
    }

    /// Asserts that another client gets its response, and nothing was killed.
    #[track_caller]
    fn is_well(&self, after: &str) {
        wait_for(&format!("an answer after {after}"), || {
            let mut connection = Connection::try_to(self.server.peer()).ok()?;
            connection.send_if_open(Request::get("/").bytes());
            let response = connection.try_receive(false).ok()?;
            (response.status == 200).then_some(())
        });
        assert_eq!(self.group.kills(), 0, "killed by {after}");
    }

    /// As many clients as allowed wait with half of a request, while scripts allocate without end.
    fn take_all_connections(&self) {
        let waiting: Vec<Connection> = (0..1000).filter_map(|_| self.stall(0)).collect();
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let Ok(mut connection) = Connection::try_to(self.server.peer()) else { return };
                    connection.send_if_open(Request::get("/hog").bytes());
                    let _any = connection.try_receive(false);
                });
            }
        });
        self.is_well("a full load of connections");
        drop(waiting);
    }

    /// Runs clients that use all available resources.
    fn flood(&self) {
        let stalled: Vec<Connection> = (0..1000).filter_map(|number| self.stall(number)).collect();
        self.is_well("clients that stall");
        thread::scope(|scope| {
            for target in GREEDY.iter().cycle().take(8 * GREEDY.len()) {
                scope.spawn(|| {
                    let Ok(mut connection) = Connection::try_to(self.server.peer()) else { return };
                    connection.send_if_open(Request::get(target).bytes());
                    let _any = connection.try_receive(false);
                });
            }
        });
        self.is_well("greedy requests");
        drop(stalled);
        let peer = Peer::new(self.server.address(), Protocol::Http2Clear, None);
        for flood in HTTP2 {
            self.flood_with(flood, &peer);
        }
    }

    fn flood_with(&self, flood: &Flood, peer: &Peer) {
        let _ends = flood.flood(peer, Leave::after(None));
        self.is_well(flood.name);
    }

    /// Opens a client that sends half of a request, or never reads its response.
    fn stall(&self, number: usize) -> Option<Connection> {
        let mut connection = Connection::try_to(self.server.peer()).ok()?;
        let bytes = match number % 3 {
            0 => format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}", "y".repeat(15_000)).into_bytes(),
            1 => {
                Request::new("POST", "/body").body(&vec![b'x'; 900_000]).bytes()[..800_000].to_vec()
            }
            _ => Request::get("/stream").bytes(),
        };
        connection.send_if_open(bytes);
        Some(connection)
    }
}

#[test]
fn floods_do_not_get_a_server_with_scripts_oom_killed() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let line = served.server.wait_for_line(0, |line| line.starts_with("memory: "));
        let chosen = "smallest defaults, more than a quarter of the 128 MiB of the control group";
        assert!(line.contains(chosen), "{line}");
        let bound_bytes = served.server.reported_bound_bytes();
        assert!(bound_bytes <= GROUP_BYTES / 8 * 3, "{bound_bytes}");
        served.flood();
        let own_bytes = served.server.own_memory_bytes();
        assert!(own_bytes <= bound_bytes, "{own_bytes} of {bound_bytes}");
        // Passwords have been hashed meanwhile, with the usual strength.
        let hashed = served.server.get("/password");
        let stored = hashed.text();
        assert!(stored.starts_with("$argon2id$v=19$m=7168,t=5,p=1$"), "{stored}");
        assert_eq!(served.server.get("/verify").text(), "false");
    }
}

#[test]
fn the_bound_is_a_quarter_of_a_container_that_is_large_enough() {
    let secured = ["--tls", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--tls-self", "p256"];
    for io in Io::BOTH {
        for flags in [&[][..], &secured] {
            let flags = [&["--io", io.as_str()], flags].concat();
            let served = Served::start_in(ENOUGH_BYTES, &flags);
            let line = served.server.wait_for_line(0, |line| line.starts_with("memory: "));
            let chosen = "smaller defaults, to fit into a quarter of the 256 MiB";
            assert!(line.contains(chosen), "{line}");
            let bound_bytes = served.server.reported_bound_bytes();
            assert!(bound_bytes <= ENOUGH_BYTES / 4, "{bound_bytes} with {flags:?}");
            served.take_all_connections();
            let own_bytes = served.server.own_memory_bytes();
            assert!(own_bytes <= bound_bytes, "{own_bytes} of {bound_bytes} with {flags:?}");
        }
    }
}

/// Values of these kinds need the most memory of the allocator for each byte that a VM counts.
const SMALL_VALUES: &str = r#"
local held, round = {}, 0
local make = {
    tables = function() return {} end,
    arrays = function(i) return { i } end,
    texts = function(i)
        local byte = function(divisor) return math.floor(i / divisor) % 64 + 32 end
        return string.char(byte(1), byte(64), byte(4096), round + 32)
    end,
}
pinion.get("/", function() return "home" end)
pinion.get("/fill/:kind", function(req)
    local make, list = make[req.params.kind], { held }
    held, round = list, round + 1
    for i = 2, 1e7 do list[i] = make(i) end
end)
"#;

#[test]
fn a_vm_full_of_small_values_uses_no_more_than_its_counted_memory() {
    for kind in ["tables", "arrays", "texts"] {
        let files = Folder::with("small-values", [("site/main.lua", SMALL_VALUES)]);
        let flags =
            ["--io", "epoll", "--workers", "1", "--lua-vm-memory", "8", "--lua-memory", "2"];
        let server = Start::site(&files.join("site")).flags(&flags).start();
        assert_eq!(server.get("/").text(), "home");
        let before_bytes = server.memory_bytes("RssAnon");
        for _ in 0..8 {
            assert_eq!(server.get(&format!("/fill/{kind}")).status, 500, "{kind}");
        }
        let grown_bytes = server.memory_bytes("RssAnon") - before_bytes;
        // The VM is full, and a third of its size is added for the allocator.
        assert!(grown_bytes >= 7 << 20, "{grown_bytes} bytes of {kind}");
        assert!(grown_bytes <= (8 << 20) / 3 * 4, "{grown_bytes} bytes of {kind}");
    }
}
