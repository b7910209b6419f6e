//! Clients post input that keeps a single function of C busy for as long as they like, if the
//! function is not seeded, split or charged: the same worker serves others meanwhile.

use pinion_tests::body::colliding_numbers;
use pinion_tests::matrix::Io;
use pinion_tests::request::Request;
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use pinion_tests::{SetAtEnd, wait_for};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const SCRIPT: &str = r#"
pinion.get("/hello", function() return "hello" end)
-- LuaJIT's own hash of a number does not see its sign.
pinion.post("/keys", function(req)
    local keys, count = {}, 0
    for _, key in ipairs(req:limit(2^25):json()) do
        keys[key], keys[-key] = true, true
    end
    for _ in pairs(keys) do count = count + 1 end
    return tostring(count)
end)
pinion.post("/objects", function(req)
    local count = 0
    for _ in pairs(req:limit(2^25):json()) do count = count + 1 end
    return tostring(count)
end)
pinion.post("/list", function(req)
    return tostring(#table.concat(req:limit(2^25):json(), ","))
end)
pinion.post("/chunk", function(req)
    return tostring(#assert(load(req:limit(2^25):body()))())
end)
"#;

/// Keys of a table, and members of an object.
const KEYS: usize = 1_000_000;
/// Elements of a list.
const ELEMENTS: usize = 3_000_000;
/// Literals of a chunk of a megabyte.
const LITERALS: usize = 200_000;
/// Requests that a victim completes during each attack.
const VICTIM_REQUESTS: usize = 6;

/// Returns the attacks: a path, the posted content, and the response when the limits allow
/// everything.
fn attacks() -> [(&'static str, String, String); 4] {
    let joined = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(",");
    let numbers = colliding_numbers().take(KEYS / 2).map(|key| format!("{key:.16}"));
    let numbers = joined(&mut numbers.into_iter());
    let mut members = String::new();
    for number in 0..KEYS {
        let comma = if number == 0 { "" } else { "," };
        write!(members, "{comma}\"{number:010}\":1").expect("memory");
    }
    let list = "7,".repeat(ELEMENTS - 1) + "7";
    // Constants of a chunk are keys of a table as well.
    let literals = joined(&mut (0..LITERALS).map(|number| format!("{number}")));
    [
        ("/keys", format!("[{numbers}]"), KEYS.to_string()),
        ("/objects", format!("{{{members}}}"), KEYS.to_string()),
        ("/list", format!("[{list}]"), (2 * ELEMENTS - 1).to_string()),
        ("/chunk", format!("return {{{literals}}}"), LITERALS.to_string()),
    ]
}

/// The limits that every site has, and limits that let each attack reach its end.
const LIMITS: [&[&str]; 2] = [
    &[],
    &["--lua-cpu", "60000", "--lua-time", "60", "--lua-memory", "512", "--lua-vm-memory", "1024"],
];

#[test]
fn large_input_to_c_functions_does_not_block_other_requests() {
    let folder = Folder::with("large-input", [("main.lua", SCRIPT), ("index.html", "home")]);
    let attacks = attacks();
    for io in Io::BOTH {
        for limits in LIMITS {
            let flags = ["--io", io.as_str(), "--workers", "1"];
            let server = Start::site(folder.path()).flags(&flags).flags(limits).start();
            for (path, content, expected) in &attacks {
                eprintln!("{io:?} {limits:?} {path}"); // Shown when the case fails.
                let request = Request::new("POST", path).body(content.as_bytes());
                let (done, ended) = (AtomicBool::new(false), AtomicUsize::new(0));
                thread::scope(|scope| {
                    let _done = SetAtEnd(&done);
                    scope.spawn(|| {
                        while !done.load(Ordering::Relaxed) {
                            let response = server.exchange(&request);
                            let is_whole = response.status == 200 && response.text() == expected;
                            // No flag raises the steps that decoding and parsing take.
                            let may_end = limits.is_empty() || *path != "/keys";
                            let is_ended = may_end && response.status >= 400;
                            assert!(is_whole || is_ended, "{response}");
                            ended.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                    for _ in 0..VICTIM_REQUESTS {
                        assert_eq!(server.get("/").text(), "home", "beside {path}");
                        assert_eq!(server.get("/hello").text(), "hello", "beside {path}");
                    }
                    wait_for("the end of an attack", || {
                        assert_eq!(server.get("/hello").text(), "hello", "beside {path}");
                        (ended.load(Ordering::Relaxed) > 0).then_some(())
                    });
                });
            }
            server.stop();
        }
    }
}
