//! Paths in the messages and stacks of scripts: each is that of a file of the site, relative to the
//! folder in the arguments of the server, and the Lua code of the server itself is not shown.

use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use std::path::Path;

/// The positions of the errors are not listed here, because the stacks have them.
const MAIN: &str = r#"
local shop = require("lib.shop")
local function fails() error("in a function") end
pinion.use(function(req, res, next) local said, why = next() return said, why end)
pinion.get("/handler", function() local value = fails() return value end)
pinion.get("/argument", function() pinion.sleep("x") end)
pinion.get("/tail", function() return pinion.sleep("x") end)
pinion.get("/written", function(req, res) local done = res:write({}) return done end)
pinion.get("/encoded", function() local text = pinion.codec.hex_encode({}) return text end)
pinion.get("/module", function() local value = shop.fails() return value end)
pinion.get("/missing", function() local value = require("lib.none") return value end)
pinion.get("/coroutine", function()
    local go = coroutine.wrap(function() local value = shop.fails() return value end)
    local value = go()
    return value
end)
pinion.get("/replaced", function() local text = ("x"):gsub("x", fails) return text end)
pinion.get("/sorted", function() table.sort({ 3, 1, 2 }, fails) end)
pinion.get("/returned", function() return nil, "why" end)
pinion.get("/gathered", function() local value = pinion.gather(shop.fails) return value end)
pinion.get("/cached", function() local value = pinion.cached("k", 1, fails) return value end)
pinion.get("/spawned", function() pinion.spawn(function() local x = fails() return x end) end)
pinion.get("/sent", function() pinion.send("news", "x") end)
pinion.on("news", function() local value = shop.fails() return value end)
pinion.get("/scheduled", function() end)
pinion.every(0.05, function() local value = fails() return value end)
pinion.get("/caught", function() pinion.log("caught " .. tostring(select(2, pcall(fails)))) end)
pinion.get("/endless", function() while true do end end)
"#;

const SHOP: &str = "local shop = {}\nfunction shop.fails() error('in a module') end\nreturn shop\n";

/// Creates a site below a folder, with its content in a folder next to the code, or without one.
fn site(folder: &Folder, name: &str, content: &str) {
    for (path, text) in [
        ("main.lua".to_owned(), MAIN),
        ("lib/shop.lua".to_owned(), SHOP),
        (format!("{content}page.dyn.html"), "<p>\n<?lu local none; none.x = 1 ?>"),
        (format!("{content}part.dyn.html"), "<?include in.priv.html ?>"),
        (format!("{content}in.priv.html"), "<p>\n\n<?lu error('in a part') ?>"),
        (format!("{content}formatted.dyn.html"), "<p>#[['x':d]]"),
    ] {
        folder.write(format!("{name}/{path}"), text);
    }
}

/// Returns the paths in a line of the log that precede a line number.
fn paths(line: &str) -> Vec<&str> {
    let words = line.split([' ', '\t', '<', '>', '(', ')', '"']);
    let numbered = words.filter_map(|word| {
        let word = word.trim_end_matches(':');
        let (path, number) = word.rsplit_once(':')?;
        number.parse::<u32>().is_ok().then_some(path)
    });
    numbered.collect()
}

/// Returns the lines of the log about a request of a script, after waiting for all marks.
fn logged_lines(server: &Server, target: &str, marks: &[&str]) -> Vec<String> {
    let from = server.lines().len();
    server.get(target);
    for mark in marks {
        server.wait_for_line(from, |line| line.contains(mark));
    }
    server.lines().split_off(from)
}

/// Asserts that all paths of some lines are those of files below a folder.
#[track_caller]
fn are_of_site(lines: &[String], folder: &Path) {
    for line in lines {
        let Some((_, text)) = line.split_once("pinion: lua: ") else { continue };
        let text = text.replace("(...tail calls...)", "");
        for ours in ["pinion:", "string:", "<page ", "__", "..."] {
            assert!(!text.contains(ours), "{line}");
        }
        for path in paths(&text) {
            let path = Path::new(path);
            assert!(path.starts_with(folder) && path.is_file(), "{}: {line}", path.display());
        }
    }
}

#[test]
fn the_paths_of_messages_and_stacks_are_files_of_the_site() {
    // Lua itself cuts off the front of a long name.
    let long = format!("a-long-name-{}", "x".repeat(60));
    for (name, content) in [("s", "public_html/"), (&*long, ""), (&*long, "public_html/")] {
        let folder = Folder::new("stacks");
        site(&folder, name, content);
        let path = folder.join(name);
        let server = Start::site(&path).flags(&["--workers", "1"]).start();
        let main = format!("{name}/main.lua:");
        let shop = format!("{name}/lib/shop.lua:2:");
        let page = |file: &str| format!("{name}/{content}{file}.dyn.html:");
        let part = format!("{name}/{content}in.priv.html:3: in a part");
        for (target, mark) in [
            ("/handler", &*format!("{main}3: in a function")),
            ("/argument", &*format!("{main}6: bad argument #1 to 'pinion.sleep' (number expected")),
            (
                "/tail",
                "main.lua:4: bad argument #1 to 'pinion.sleep' (number expected, got string)",
            ),
            ("/written", "bad argument #1 to 'res:write' (string or number expected, got table)"),
            ("/encoded", "bad argument #1 to 'pinion.codec.hex_encode' (string expected, got tab"),
            ("/module", &*shop),
            ("/missing", "there is no module \"lib.none\": "),
            ("/coroutine", &*shop),
            ("/replaced", &*format!("{main}3: in a function")),
            ("/sorted", &*format!("{main}3: in a function")),
            ("/returned", "the handler returned nil and an error: why"),
            ("/gathered", &*shop),
            ("/cached", &*format!("{main}3: in a function")),
            ("/spawned", &*format!("pinion.spawn: {}", path.join("main.lua:3: in a").display())),
            ("/sent", &*shop),
            ("/scheduled", &*format!("{main}3: in a function")),
            ("/caught", &*format!("caught {}", path.join("main.lua:3: in a f").display())),
            ("/endless", "the request has used up its CPU time of 200 ms: look for a loop that"),
            ("/page", &*page("page")),
            ("/part", &*part),
            ("/formatted", "#[['x':d]]: the format `d` needs a number, the value is a string"),
        ] {
            let lines = logged_lines(&server, target, &[mark]);
            are_of_site(&lines, &path);
        }
        are_of_site(&server.lines(), &path);
        server.stop();
    }
}

/// Errors of a start, a check, a build and a reload have the same paths.
#[test]
fn errors_at_start_check_build_and_reload_have_the_same_paths() {
    for (file, text, line) in [
        ("main.lua", "local x\nif x\n", 3),
        ("main.lua", "local x\nx.y = 1\n", 2),
        ("lib/db.lua", "\nx = = 2\n", 2),
        ("public_html/a.dyn.html", "<p>\n<?lu if ?>\n", 2),
    ] {
        let folder = Folder::with(
            "stacks",
            [
                ("site/main.lua", "\n"),
                ("site/public_html/index.html", "well"),
                ("site/public_html/a.dyn.html", "a page"),
            ],
        );
        let site = folder.join("site");
        let server = Start::site(&site).flags(&["--watch"]).start();
        let lines = server.lines().len();
        folder.write(format!("site/{file}"), text);
        let place = format!("{}:{line}:", site.join(file).display());
        server.wait_for_line(lines, |line| line.contains(&place));
        server.stop();
        let shown = site.display().to_string();
        for command in [&["serve", &shown, "--listen", "127.0.0.1:0"][..], &["check", &shown]] {
            let ended = run(command);
            let said = ended.stdout + &ended.stderr;
            assert!(said.contains(&place), "{command:?}: {said}");
            assert_eq!(said.matches(&shown).count(), said.matches(&place).count(), "{said}");
        }
    }
}
