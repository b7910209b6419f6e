//! A site with scripts where memory is little: in a control group of 128 MiB the defaults are so
//! small that clients who take all they can get do not have the server killed.

use pinion_tests::client::Connection;
use pinion_tests::client::wire::Peer;
use pinion_tests::floods::{Flood, HTTP2, Leave};
use pinion_tests::folder::Folder;
use pinion_tests::matrix::Io;
use pinion_tests::memory_group::MemoryGroup;
use pinion_tests::protocol::Protocol;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::wait_for;
use std::fs;
use std::thread;

/// The memory of a small container.
const GROUP_BYTES: u64 = 128 << 20;

/// Takes of everything that scripts may have as much as it gets.
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
pinion.get("/password", function() return pinion.crypto.hash_password("secret") end)
pinion.post("/body", function(req) return tostring(#req:body()) end)
pinion.get("/stream", function(req, res)
    for i = 1, 1000 do res:write(large) end
end)
"#;

/// Requests that take much, several at once.
const GREEDY: &[&str] = &["/hog", "/keep", "/send", "/files", "/read", "/password", "/stream"];

struct Served {
    server: Server,
    group: MemoryGroup,
    _files: Folder,
}

impl Served {
    fn start(io: Io) -> Served {
        let files = Folder::with("little-memory", [("site/main.lua", SITE)]);
        fs::create_dir(files.join("data")).expect("a folder");
        files.write("data/large", vec![b'x'; 15 << 20]);
        let group = MemoryGroup::new(GROUP_BYTES);
        let data = format!("data={}", files.join("data").display());
        let start = Start::site(&files.join("site")).flags(&["--io", io.as_str()]);
        let start = start.flags(&["--lua-folder", &data]);
        let server = start.grace(1).under(group.runner()).start();
        Served { server, group, _files: files }
    }

    /// Somebody else is answered, and nothing was killed.
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

    /// Clients who take what they can get.
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

    /// A client that sends half of a request, or never reads its response.
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
fn floods_do_not_have_a_site_with_scripts_killed() {
    for io in Io::BOTH {
        let served = Served::start(io);
        let line = served.server.wait_for_line(0, |line| line.starts_with("memory: "));
        let chosen = "smallest defaults, more than a quarter of the 128 MiB of the control group";
        assert!(line.contains(chosen), "{line}");
        let bound_bytes = served.server.told_bound_bytes();
        assert!(bound_bytes <= GROUP_BYTES / 8 * 5, "{bound_bytes}");
        served.flood();
        let own_bytes = served.server.own_memory_bytes();
        assert!(own_bytes <= bound_bytes, "{own_bytes} of {bound_bytes}");
    }
}
