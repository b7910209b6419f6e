//! Sends many thousand requests of every kind, and checks that the server holds no more memory and
//! objects at the end than after the first thousand.

use std::fs;

use pinion_engine::backend::sim::Faults;
use pinion_engine::stepped_worker::Holdings as EngineHoldings;
use pinion_jobs::confined_folders::Folders;
use pinion_lua::limits::BACKGROUND_WALL_MAX_MS;
use pinion_lua::script_quotas::Allowance;
use pinion_lua::site_program::SiteProgram;
use pinion_lua::source_names::SourceNames;
use pinion_lua::worker_scripts::ObjectCounts;

use crate::counting_allocator;
use crate::http1_client::{Heard, Talk};
use crate::script_files;
use crate::simulated_worker::Stage;

/// After this many requests, tables, queues and spare coroutines have reached their size, and hot
/// code is compiled.
const FIRST_REQUESTS: u32 = 1_000;
/// Requests of an ordinary run, and of `cargo xtask test --long`.
const ALL_REQUESTS: [u32; 2] = [20_000, 100_000];
/// Number of clients that send requests at the same time.
const CLIENTS: usize = 20;
/// CPU time of a request: more than other requests need on a busy machine. Endless requests use all
/// of it.
const CPU_MS: u64 = 200;

/// Most bytes by which the memory of the VM may grow, for code that LuaJIT has compiled meanwhile.
const LUA_MORE_MAX_BYTES: usize = 256 * 1024;
/// Most bytes by which the other memory of the process may grow, for the data of the simulated
/// network about connections that were reset: 2 bytes for each request.
const NATIVE_MORE_MAX_BYTES: usize = 192 * 1024;

const SCRIPT: &str = r#"
pinion.get("/ok/:n", function(req) return "hello " .. req.params.n end)
pinion.get("/json/:n", function(req, res)
    res:json({ n = pinion.json.decode('{"a":[1,2,{"b":"c"}]}'), path = req.path })
end)
pinion.get("/sleep/:n", function(req) pinion.sleep(0.003) return req.params.n end)
pinion.get("/gather/:n", function(req)
    local a, b = pinion.gather(function() pinion.sleep(0.002) return 1 end, function() return 2 end)
    return tostring(a + b)
end)
pinion.get("/spawn/:n", function(req)
    pinion.spawn(function() pinion.sleep(0.01) pinion.send("done", req.params) end)
    return "begun"
end)
pinion.on("done", function(value) pinion.keep.done = value end)
pinion.get("/cached/:n", function(req)
    local key = tonumber(req.params.n) % 50
    return pinion.cached(key, 0.1, function() pinion.sleep(0.001) return ("x"):rep(key) end)
end)
pinion.get("/token/:n", function(req)
    local key = ("k"):rep(32)
    local token = pinion.crypto.jwt.sign({ sub = req.params.n }, key, { expires_in = 60 })
    return pinion.crypto.jwt.verify(token, key, { alg = "HS256" }).sub
end)
pinion.get("/read/:n", function(req) return pinion.fs.read("files/text") end)
pinion.get("/file/:n", function(req, res) return res:file("files/text") end)
pinion.post("/form/:n", function(req)
    local file = req:form().file
    return file.name .. file.size .. #file:read()
end)
pinion.get("/stream/:n", function(req, res)
    for _ = 1, 100 do res:write(("s"):rep(10000)):flush() end
end)
pinion.get("/error/:n", function(req) error("wrong: " .. req.params.n) end)
pinion.get("/endless/:n", function(req) while true do end end)
pinion.not_found(function(req, res) return "nothing at " .. req.path end)
local guarded = pinion.group("/guarded")
guarded.use(function(req, res, next) next() error("not for you") end)
guarded.get("/:n", function(req, res) res:write("secret") end)
"#;

const PAGE: &str = "<?include layout ?>\n<?lu for i = 1, 20 do ?>\n\
                    <li>#[[query.n]] #[[i:%03d]]\n<?lu end ?>\n";
const LAYOUT: &str = "<title>#[[query.n or \"none\"]]</title>\n";

/// Frequent requests and their statuses.
const OFTEN: [(&str, u16); 10] = [
    ("ok", 200),
    ("json", 200),
    ("sleep", 200),
    ("gather", 200),
    ("spawn", 200),
    ("cached", 200),
    ("token", 200),
    ("read", 200),
    ("page", 200),
    ("nothing", 404),
];
/// Rare requests, each sent once in this many requests, because they take long or write to the log.
const SELDOM: [(u32, &str, u16); 6] = [
    (5_000, "endless", 500),
    (500, "error", 500),
    (499, "guarded", 500),
    (250, "stream", 200),
    (100, "form", 200),
    (50, "file", 200),
];
/// More content than stays in memory.
const UPLOAD_BYTES: usize = 100_000;

/// The counts of all objects.
#[derive(Debug, PartialEq, Eq)]
struct Counts {
    scripts: ObjectCounts,
    engine: EngineHoldings,
    descriptors: usize,
}

fn program() -> SiteProgram {
    let folder = script_files::folder("leaks", "text", &"text\n".repeat(30_000));
    let folders = Folders::open(&[folder], |_| None).expect("opened");
    let pages = [("/page.dyn.html", PAGE), ("/layout", LAYOUT)];
    let files = pages.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()));
    let main = Some(SCRIPT.as_bytes().to_vec());
    let program = SiteProgram::of_code("main.lua", main, SourceNames::default(), files.into_iter())
        .expect("pages");
    program.with_folders(folders).allowed(Allowance { cpu_ms: CPU_MS, ..Allowance::default() })
}

/// Returns the request of a number, and the status of its response.
fn request(number: u32) -> (&'static str, u16, Vec<u8>) {
    let seldom = SELDOM.iter().find(|(once_in, ..)| number % once_in == once_in - 1);
    let (name, status) = match seldom {
        Some((_, name, status)) => (*name, *status),
        None => OFTEN[number as usize % OFTEN.len()],
    };
    let request = match name {
        "page" => {
            format!("GET /page?n=%3C{} HTTP/1.1\r\nHost: a\r\n\r\n", number / 10 % 100)
        }
        "form" => {
            let content = "y".repeat(UPLOAD_BYTES);
            let body = format!(
                "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n\
                 {content}\r\n--b--\r\n"
            );
            let head = format!("POST /form/{number} HTTP/1.1\r\nHost: a\r\n");
            let kind = "Content-Type: multipart/form-data; boundary=b\r\n";
            format!("{head}{kind}Content-Length: {}\r\n\r\n{body}", body.len())
        }
        _ => format!("GET /{name}/{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
    };
    (name, status, request.into_bytes())
}

/// Sends these requests and waits for their responses.
fn ask_all(stage: &mut Stage<true>, mut numbers: std::ops::Range<u32>) {
    let mut talks: Vec<_> =
        (0..CLIENTS).map(|_| (Talk::new(&stage.network), None::<(&str, u16)>)).collect();
    while !talks.is_empty() {
        // The list of the application grows with each request, which is not a leak.
        stage.worker.app().begun.clear();
        talks.retain_mut(|(talk, asked)| {
            let heard = talk.hear();
            match (heard, &asked) {
                (Heard::Response(response), Some((name, status))) => {
                    assert_eq!(response.status, *status, "{name}: {response:?}");
                    *asked = None;
                }
                (Heard::Nothing, Some(("stream", _))) if talk.has_begun() => {
                    std::mem::replace(talk, Talk::new(&stage.network)).reset();
                    *asked = None;
                }
                (Heard::Nothing, _) => {}
                (heard, _) => panic!("{asked:?}: {heard:?}"),
            }
            if asked.is_none() {
                let Some(number) = numbers.next() else {
                    std::mem::replace(talk, Talk::new(&stage.network)).leave();
                    return false;
                };
                let (name, status, request) = request(number);
                talk.ask(&request);
                *asked = Some((name, status));
            }
            talk.send(usize::MAX);
            true
        });
        while stage.jobs.run_one() {}
        let soon_ms = stage.now_ms() + 1;
        stage.pass(soon_ms);
    }
}

/// Waits until everything has ended, and returns the counts of objects, the memory of Lua, and the
/// other memory except memory that is kept for reuse.
fn held(stage: &mut Stage<true>) -> (Counts, usize, usize) {
    stage.rest(BACKGROUND_WALL_MAX_MS + 10_000);
    let engine = stage.worker.holdings();
    let site = stage.worker.app();
    let scripts = site.scripts.object_counts();
    let lua_bytes = site.scripts.used_bytes();
    let native_bytes = counting_allocator::used_bytes() - lua_bytes - stage.worker.spare_bytes();
    let descriptors = fs::read_dir("/proc/self/fd").expect("a list of descriptors").count();
    (Counts { scripts, engine, descriptors }, lua_bytes, native_bytes)
}

#[test]
fn many_thousand_requests_leave_nothing_behind() {
    let is_long = std::env::var_os("PINION_LONG").is_some();
    let all = ALL_REQUESTS[usize::from(is_long)];
    let mut stage = Stage::new(1, Faults::default(), program());
    ask_all(&mut stage, 0..FIRST_REQUESTS);
    let (first, first_lua_bytes, first_native_bytes) = held(&mut stage);
    assert_eq!(first.scripts, ObjectCounts { vms: 1, ..ObjectCounts::default() });
    assert_eq!(first.engine, EngineHoldings::default());
    ask_all(&mut stage, FIRST_REQUESTS..all);
    let (last, lua_bytes, native_bytes) = held(&mut stage);
    assert_eq!(last, first);
    let more = [
        lua_bytes.saturating_sub(first_lua_bytes),
        native_bytes.saturating_sub(first_native_bytes),
    ];
    let is_little = more[0] <= LUA_MORE_MAX_BYTES && more[1] <= NATIVE_MORE_MAX_BYTES;
    assert!(is_little, "more bytes of Lua and of the rest: {more:?}");
}
