//! `pinion.store`: scripts use the store of the server, together with clients of Redis.

use pinion_tests::binary::source_root;
use pinion_tests::external_programs::{program, stdout};
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use std::path::PathBuf;
use std::thread;

const SCRIPT: &str = r#"
local store = pinion.store
store.set("started", "yes")

pinion.get("/get/:key", function(req) return store.get(req.params.key) or "none" end)
pinion.get("/set/:key/:value", function(req)
    return store.set(req.params.key, req.params.value, "EX", 60)
end)
pinion.get("/visit", function() return tostring(store.incr("visits")) end)
pinion.get("/wrong", function() local length = store.lpush("started", "x") return length end)
pinion.get("/fill", function()
    local fields = {}
    for n = 1, 20000 do fields["field " .. n] = n end
    return tostring(store.hset("large", fields))
end)
-- The reply is a job, and more of the time of a job than most requests take.
pinion.get("/large", function()
    local all, sum = store.hgetall("large"), 0
    for _, value in pairs(all) do sum = sum + value end
    return tostring(sum)
end)
pinion.get("/gathered", function()
    local a, b, c = pinion.gather(
        function() return store.hlen("large") end,
        function() return #store.hkeys("large") end,
        function() return #store.multi(function(tx) tx.hvals("large") end)[1] end)
    return a .. " " .. b .. " " .. c
end)
pinion.get("/in-coroutine", function()
    local body = coroutine.wrap(function() return #store.hvals("large") end)
    return tostring(body())
end)
-- A comparison is called by C, through which no coroutine can wait.
pinion.get("/sorting", function()
    local function copies() return store.copy("large", "copy") == 1 end
    local _, why = pcall(table.sort, { 1, 2 }, copies)
    return why .. ": " .. store.exists("copy")
end)
pinion.get("/spawned", function()
    pinion.spawn(function() store.set("behind", #store.hvals("large")) end)
    return "begun"
end)
pinion.get("/transfer", function()
    local replies = store.multi(function(tx)
        tx.decr("from")
        tx.incr("to")
        tx.mget("from", "to")
    end)
    return replies[3][1] + replies[3][2] .. ""
end)
"#;

/// A server with a script, and a store whose socket is in the folder.
struct Site {
    server: Server,
    socket: PathBuf,
    _folder: Folder,
}

impl Site {
    fn start(io: Io) -> Self {
        let folder = Folder::with("lua-store", [("site.lua", SCRIPT)]);
        let socket = folder.join("store.sock");
        let address = format!("unix:{}", socket.display());
        let flags = ["--io", io.as_str(), "--workers", "2", "--store", &address];
        let server = Start::site(&folder.join("site.lua")).flags(&flags).start();
        Self { server, socket, _folder: folder }
    }

    fn redis(&self, words: &[&str]) -> String {
        let mut command = program("redis-cli", "redis-tools");
        command.arg("-s").arg(&self.socket).args(words);
        String::from_utf8(stdout(&mut command)).expect("text").trim().to_owned()
    }

    /// Sends a request on a connection of its own, which any of the workers may accept.
    fn get(&self, target: &str) -> String {
        let response = self.server.exchange(&Request::get(target));
        assert_eq!(response.status, 200, "{target}: {response}");
        response.text().to_owned()
    }
}

#[test]
fn scripts_and_clients_share_the_store() {
    for io in Io::BOTH {
        let site = Site::start(io);
        assert_eq!(site.redis(&["GET", "started"]), "yes");
        for round in 0..20 {
            let value = round.to_string();
            assert_eq!(site.redis(&["SET", "a", &value]), "OK");
            assert_eq!(site.get("/get/a"), value);
            assert_eq!(site.get(&format!("/set/b/{value}")), "OK");
            assert_eq!(site.redis(&["GET", "b"]), value);
        }
        assert_eq!(site.redis(&["TTL", "b"]), "60");
        // Scripts are not listed as clients, and their store needs no password.
        assert_eq!(site.redis(&["CLIENT", "LIST"]).lines().count(), 1);
        let response = site.server.exchange(&Request::get("/wrong"));
        assert_eq!(response.status, 500);
        let lines = site.server.last_words();
        let error =
            "site.lua:10: WRONGTYPE Operation against a key holding the wrong kind of value";
        assert!(lines.iter().any(|line| line.contains(error)), "{}", lines.join("\n"));
    }
}

#[test]
fn commands_of_all_workers_are_executed_one_after_the_other() {
    let site = Site::start(Io::BOTH[0]);
    site.redis(&["MSET", "from", "1000", "to", "0"]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    site.get("/visit");
                    // Both numbers change at once.
                    assert_eq!(site.get("/transfer"), "1000");
                }
            });
        }
    });
    assert_eq!(site.redis(&["GET", "visits"]), "200");
    assert_eq!(site.redis(&["MGET", "from", "to"]), "800\n200");
}

#[test]
fn long_commands_are_awaited() {
    for io in Io::BOTH {
        let site = Site::start(io);
        assert_eq!(site.get("/fill"), "20000");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        assert_eq!(site.get("/large"), "200010000");
                        assert_eq!(site.get("/gathered"), "20000 20000 20000");
                        assert_eq!(site.get("/in-coroutine"), "20000");
                    }
                });
            }
        });
        // A command with an error has no effect.
        let refused = site.get("/sorting");
        assert!(refused.contains("here the script cannot wait"), "{refused}");
        assert!(refused.ends_with(": 0"), "{refused}");
        assert_eq!(site.get("/spawned"), "begun");
        // The work ends at the latest with the server.
        while site.redis(&["GET", "behind"]) != "20000" {
            thread::yield_now();
        }
        let lines = site.server.last_words();
        assert!(!lines.iter().any(|line| line.contains(" (id ")), "{}", lines.join("\n"));
    }
}

#[test]
fn a_store_for_scripts_needs_no_listener() {
    let folder = Folder::with("lua-store-alone", [("site.lua", SCRIPT)]);
    let flags = ["--workers", "2", "--store-memory", "16"];
    let server = Start::site(&folder.join("site.lua")).flags(&flags).start();
    assert_eq!(server.get("/set/a/1").text(), "OK");
    assert_eq!(server.get("/get/a").text(), "1");
    server.stop();
    // Without a store, the error of the script names what is missing.
    let folder = Folder::with(
        "lua-store-none",
        [("site.lua", "pinion.get('/', function() local a = pinion.store.get('a') return a end)")],
    );
    let server = Start::site(&folder.join("site.lua")).start();
    assert_eq!(server.get("/").status, 500);
    let lines = server.last_words();
    let error = "site.lua:1: there is no store: start the server with --store-memory MIB";
    assert!(lines.iter().any(|line| line.contains(error)), "{}", lines.join("\n"));
}

#[test]
fn the_front_page_of_the_examples_is_rendered_from_the_store() {
    let folder = Folder::new("front-page");
    let socket = folder.join("store.sock");
    let address = format!("unix:{}", socket.display());
    let flags = ["--workers", "2", "--store", &address];
    let server = Start::site(&source_root().join("examples/front-page")).flags(&flags).start();
    let redis = |words: &[&str]| {
        let mut command = program("redis-cli", "redis-tools");
        command.arg("-s").arg(&socket).args(words);
        String::from_utf8(stdout(&mut command)).expect("text").trim().to_owned()
    };
    assert_eq!(redis(&["LLEN", "news"]), "50");
    let page = server.get("/");
    assert_eq!(page.status, 200);
    let text = page.text();
    assert!((15_000..18_000).contains(&text.len()), "about 16 KiB: {}", text.len());
    assert_eq!(text.matches("<li id=").count(), 50);
    assert_eq!(text.matches("<tr><td>").count(), 50);
    assert!(text.contains("a new roof &amp; new windows"));
    // A value that a client writes is on the next page, as text.
    redis(&["HSET", "news:51", "title", "<b>New</b>", "text", "new", "time", "12:00"]);
    redis(&["LPUSH", "news", "51"]);
    for _ in 0..4 {
        let page = server.get("/");
        assert!(page.text().contains("&lt;b&gt;New&lt;/b&gt;"), "{}", page.text());
    }
    assert_eq!(redis(&["GET", "views"]), "5");
    server.stop();
}
