//! `pinion.store.cached` and `fragment`: values that scripts and pages keep until some data changes
//! from which they were made.

use pinion_tests::external_programs::{program, stdout};
use pinion_tests::matrix::Io;
use pinion_tests::server::{Server, Start};
use pinion_tests::temporary_folder::Folder;
use pinion_tests::wait_for;
use std::path::PathBuf;

const SCRIPT: &str = r#"
local store = pinion.store
local made = 0

-- Says how often this worker has made it, too.
local function counted(name, work)
    return store.cached(name, function()
        made = made + 1
        return work() .. ", made " .. made
    end)
end

pinion.get("/list", function()
    return counted("list", function() return table.concat(store.lrange("list", 0, -1), " ") end)
end)
pinion.get("/missing", function()
    return counted("missing", function() return tostring(store.get("missing")) end)
end)
pinion.get("/hash", function()
    return counted("hash", function() return tostring(store.hget("hash", "field")) end)
end)
-- All that is never kept.
pinion.get("/written", function()
    return counted("written", function() return tostring(store.incr("visits")) end)
end)
pinion.get("/keys", function()
    return counted("keys", function() return tostring(store.dbsize()) end)
end)
pinion.get("/time-left", function()
    return counted("ttl", function() return tostring(store.ttl("list")) end)
end)
pinion.get("/job", function()
    return counted("job", function()
        store.hgetall("large")
        return "all"
    end)
end)
pinion.get("/fails", function()
    return counted("fails", function()
        store.get("missing")
        error("it fails")
    end)
end)
-- One within another is a part of it.
pinion.get("/nested", function()
    return counted("outer", function()
        return store.cached("inner", function() return store.get("inner") or "none" end)
            .. " " .. (store.get("outer") or "none")
    end)
end)
pinion.get("/waiting", function()
    return counted("waiting", function()
        local value = store.get("waited-for")
        pinion.log("it waits")
        while not store.get("go on") do pinion.sleep(0.01) end
        return tostring(value)
    end)
end)
pinion.get("/killed", function()
    return counted("killed", function()
        store.get("missing")
        while true do end
    end)
end)
pinion.get("/many/:number", function(req)
    return counted("many " .. req.params.number, function()
        return tostring(store.get("number " .. req.params.number))
    end)
end)
pinion.get("/misused", function()
    local _, first = pcall(store.cached, 1, print)
    local _, second = pcall(store.cached, "name", "text")
    return first .. "\n" .. second
end)
"#;

struct Site {
    server: Server,
    socket: PathBuf,
    _folder: Folder,
}

impl Site {
    fn start(io: Io, files: &[(&str, &str)]) -> Self {
        let folder = Folder::new("lua-store-cached");
        folder.write("site/public_html/robots.txt", "");
        for (name, text) in files {
            folder.write(format!("site/{name}"), text);
        }
        let socket = folder.join("store.sock");
        let address = format!("unix:{}", socket.display());
        let flags = ["--io", io.as_str(), "--workers", "1", "--store", &address];
        let server = Start::site(&folder.join("site")).flags(&flags).start();
        Self { server, socket, _folder: folder }
    }

    fn redis(&self, words: &[&str]) -> String {
        let mut command = program("redis-cli", "redis-tools");
        command.arg("-s").arg(&self.socket).args(words);
        String::from_utf8(stdout(&mut command)).expect("text").trim().to_owned()
    }

    fn text(&self, path: &str) -> String {
        self.server.get(path).text().to_owned()
    }
}

#[test]
fn a_cached_value_is_recomputed_when_the_keys_it_read_change() {
    for io in Io::BOTH {
        let site = Site::start(io, &[("main.lua", SCRIPT)]);
        site.redis(&["RPUSH", "list", "a", "b"]);
        for _ in 0..3 {
            assert_eq!(site.text("/list"), "a b, made 1");
        }
        // Another key changes.
        site.redis(&["SET", "other", "x"]);
        assert_eq!(site.text("/list"), "a b, made 1");
        site.redis(&["RPUSH", "list", "c"]);
        assert_eq!(site.text("/list"), "a b c, made 2");
        site.redis(&["FLUSHALL"]);
        assert_eq!(site.text("/list"), ", made 3");
        // A missing key is created.
        assert_eq!((site.text("/missing"), site.text("/missing")).1, "nil, made 4");
        site.redis(&["SET", "missing", "there", "PX", "100"]);
        assert_eq!(site.text("/missing"), "there, made 5");
        // The key expires, and so does a field.
        wait_for("the end of the key", || (site.text("/missing") == "nil, made 6").then_some(()));
        site.redis(&["HSET", "hash", "field", "x", "other", "y"]);
        site.redis(&["HPEXPIRE", "hash", "100", "FIELDS", "1", "field"]);
        let made = site.text("/hash");
        assert!(made.starts_with("x, made "), "{made}");
        wait_for("the end of the field", || {
            site.text("/hash").starts_with("nil, made ").then_some(())
        });
        site.server.stop();
    }
}

#[test]
fn values_with_untracked_reads_are_never_cached() {
    let site = Site::start(Io::BOTH[0], &[("main.lua", SCRIPT)]);
    let mut fill = vec!["HSET".to_owned(), "large".to_owned()];
    fill.extend((0..20_000).map(|number| number.to_string()));
    site.redis(&fill.iter().map(String::as_str).collect::<Vec<_>>());
    for path in ["/written", "/keys", "/time-left", "/job"] {
        assert_ne!(site.text(path), site.text(path), "{path}");
    }
    for _ in 0..2 {
        assert_eq!(site.server.get("/fails").status, 500);
    }
    let lines = site.server.last_words();
    let logged_count = lines.iter().filter(|line| line.contains(": it fails (id ")).count();
    assert_eq!(logged_count, 2, "{}", lines.join("\n"));
}

#[test]
fn nested_cached_values_invalidate_the_outer_value() {
    let site = Site::start(Io::BOTH[0], &[("main.lua", SCRIPT)]);
    assert_eq!((site.text("/nested"), site.text("/nested")).1, "none none, made 1");
    site.redis(&["SET", "inner", "i"]);
    assert_eq!((site.text("/nested"), site.text("/nested")).1, "i none, made 2");
    site.redis(&["SET", "outer", "o"]);
    assert_eq!((site.text("/nested"), site.text("/nested")).1, "i o, made 3");
    let misused = site.text("/misused");
    let expected = [
        "bad argument #1 to 'pinion.store.cached' (string expected, got number)",
        "bad argument #2 to 'pinion.store.cached' (function() expected, got string)",
    ];
    assert_eq!(misused.lines().collect::<Vec<_>>(), expected);
    site.server.stop();
}

/// A change while the value is made is not missed, and neither the end of a request nor its limit
/// leaves a lock.
#[test]
fn a_value_changed_during_its_computation_is_recomputed() {
    let site = Site::start(Io::BOTH[0], &[("main.lua", SCRIPT)]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| site.text("/waiting"));
        site.server.wait_for_line(0, |line| line.contains("it waits"));
        // Meanwhile other values are made, but not kept.
        assert_eq!(site.text("/missing"), "nil, made 2");
        assert_eq!(site.text("/missing"), "nil, made 3");
        site.redis(&["MSET", "waited-for", "new", "go on", "yes"]);
        assert_eq!(first.join().expect("a text"), "nil, made 3");
    });
    assert_eq!(site.text("/waiting"), "new, made 4");
    assert_eq!(site.text("/waiting"), "new, made 4");
    assert_eq!(site.server.get("/killed").status, 500);
    assert_eq!(site.text("/missing"), "nil, made 6");
    assert_eq!(site.text("/missing"), "nil, made 6");
    site.server.stop();
}

#[test]
fn the_oldest_cached_values_are_evicted() {
    const MOST: usize = 1000;
    let site = Site::start(Io::BOTH[0], &[("main.lua", SCRIPT)]);
    let mut connection = site.server.connect();
    let mut text = |number: usize| {
        let target = format!("/many/{number}");
        connection.exchange(&pinion_tests::request::Request::get(&target)).text().to_owned()
    };
    for number in 1..=MOST {
        assert_eq!(text(number), format!("nil, made {number}"));
    }
    assert_eq!(text(1), "nil, made 1");
    assert_eq!(text(MOST + 1), format!("nil, made {}", MOST + 1));
    assert_eq!(text(2), "nil, made 2");
    assert_eq!(text(1), format!("nil, made {}", MOST + 2));
    site.server.stop();
}

const PAGE: &str = r#"<?lu
local store = pinion.store
pinion.keep.made = pinion.keep.made or 0
local function list() ?>
<ul><?lu for _, word in ipairs(store.lrange("list", 0, -1)) do ?><li>#[[word]]</li><?lu end ?></ul>
<?lu end ?>
<h1>#[[store.incr("views")]]</h1>
<?lu fragment("list", function()
    pinion.keep.made = pinion.keep.made + 1
    list()
    write("made " .. pinion.keep.made)
end) ?>
<p>end</p>
"#;

const WAITING: &str = r#"#! parallel
<?lu local store = pinion.store ?>
<?lua pinion.sleep(0.01)
fragment("first", function() write("<p>" .. store.get("first")) end) done() ?>
<?lua fragment("second", function() write("<p>" .. store.get("second")) end) done() ?>
"#;

const LONG: &str = r#"before
<?lu fragment("long", function()
    for n = 1, 20000 do ?>#[[n]] <?lu end
    write(pinion.store.get("list length") or "none")
end) ?>
behind
"#;

const FAILING: &str = r#"before
<?lu local is_well, why = pcall(fragment, "failing", function()
    write("a part that is not shown")
    error("it fails")
end) ?>
#[[is_well]]
<?lu fragment("other", function() ?>#[[pinion.store.get("x") or "none"]]<?lu end) ?>
"#;

#[test]
fn a_cached_page_part_is_rendered_again_when_its_data_changes() {
    let files = [
        ("main.lua", ""),
        ("public_html/index.dyn.html", PAGE),
        ("public_html/waiting.dyn.html", WAITING),
        ("public_html/long.dyn.html", LONG),
        ("public_html/failing.dyn.html", FAILING),
    ];
    for io in Io::BOTH {
        let site = Site::start(io, &files);
        site.redis(&["RPUSH", "list", "<a>", "b"]);
        let shown = |views: u32, list: &str, made: u32| {
            let text = site.text("/");
            let expected =
                format!("<h1>{views}</h1>\n\n<ul>{list}</ul>\nmade {made}\n<p>end</p>\n");
            assert!(text.ends_with(&expected), "{text}");
        };
        shown(1, "<li>&lt;a&gt;</li><li>b</li>", 1);
        shown(2, "<li>&lt;a&gt;</li><li>b</li>", 1);
        site.redis(&["LPOP", "list"]);
        shown(3, "<li>b</li>", 2);
        shown(4, "<li>b</li>", 2);
        // The values are made in blocks that run at the same time.
        site.redis(&["MSET", "first", "1", "second", "2"]);
        for _ in 0..2 {
            let text = site.text("/waiting");
            assert!(text.contains("<p>1\n<p>2\n"), "{text}");
        }
        site.redis(&["SET", "second", "3"]);
        assert!(site.text("/waiting").contains("<p>1\n<p>3\n"));
        // The value is larger than a single piece of a response.
        for _ in 0..2 {
            let text = site.text("/long");
            assert!(text.len() > 100_000 && text.ends_with("19999 20000 none\nbehind\n"));
        }
        site.redis(&["SET", "list length", "7"]);
        assert!(site.text("/long").ends_with("19999 20000 7\nbehind\n"));
        for _ in 0..2 {
            assert_eq!(site.text("/failing"), "before\n\nfalse\nnone\n");
        }
        site.server.stop();
    }
}
