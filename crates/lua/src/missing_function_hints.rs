//! Hints for errors about functions that Lua has elsewhere, and a sandbox has not
//! ([`crate::sandbox`]).

/// The functions that are absent: the name in errors, the whole name, and the replacement.
const ABSENT: &[(&str, &str, &str)] = &[
    ("io", "io", "`pinion.fs` has files, below the folders that `--lua-folder` names"),
    ("ffi", "ffi", "`pinion` has what handlers need"),
    ("package", "package", "`require` finds the modules of the site"),
    ("dofile", "dofile", "`require` runs a Lua file of the site"),
    ("loadfile", "loadfile", "`require` runs a Lua file of the site"),
    ("jit", "jit", "code is compiled without it"),
    ("execute", "os.execute", "no programs are run"),
    ("exit", "os.exit", "a handler ends with `return`"),
    ("getenv", "os.getenv", "a module of the site can hold settings"),
    ("remove", "os.remove", "`pinion.fs.remove` removes files"),
    ("rename", "os.rename", "`pinion.fs.rename` renames files"),
    ("tmpname", "os.tmpname", "`pinion.fs.write` writes files"),
    ("getinfo", "debug.getinfo", "`debug.traceback` shows the stack"),
    ("sethook", "debug.sethook", "every request has its budget"),
];

/// Methods and functions of other servers, and the equivalents of Pinion.
const FOREIGN: &[(&[&str], &str)] = &[
    (&["send", "say"], "`res:write(text)`, or `return text`"),
    (&["write_head", "writeHead"], "`res:status(code)` and `res:field(name, value)`"),
    (
        &["header", "headers", "set_header", "setHeader", "add_header"],
        "`res:field(name, value)` sets a header, and `req:field(name)` reads one",
    ),
    (&["get_header", "getHeader"], "`req:field(name)`"),
    (&["send_status", "sendStatus"], "`res:status(code)`"),
    (&["send_file", "sendFile", "sendfile"], "`res:file(path)`"),
    (&["set_cookie", "setCookie"], "`res:cookie(name, value)`"),
    (&["get_body", "read_body", "text"], "`req:body()`"),
    (&["get_json", "get_json_data"], "`req:json()`"),
    (&["param"], "`req.params.name`"),
    (&["render", "render_template"], "templates are pages: files `NAME.dyn.html` of the site"),
    (&["save", "move_to", "mv"], "`pinion.fs.write(path, file:read())` stores an upload"),
    (&["mkdir", "mkdirs"], "`pinion.fs.make_folder(path)`"),
    (&["read_file", "readFile"], "`pinion.fs.read(path)`"),
    (&["write_file", "writeFile"], "`pinion.fs.write(path, text)`"),
    (&["append_file", "appendFile"], "`pinion.fs.append(path, text)`"),
    (&["exists"], "`pinion.fs.stat(path)` returns nil if there is no file"),
    (&["unlink", "rm", "rmdir"], "`pinion.fs.remove(path)`"),
    (&["readdir", "listdir", "ls"], "`pinion.fs.list(path)`"),
    (&["stringify", "dumps"], "`pinion.json.encode(value)`"),
    (&["loads"], "`pinion.json.decode(text)`"),
    (&["set_timeout", "setTimeout"], "`pinion.spawn(f)` with `pinion.sleep(seconds)` in `f`"),
    (&["set_interval", "setInterval"], "`pinion.every(seconds, f)`"),
    (&["fetch"], "there is no HTTP client"),
    (&["listen"], "`pinion serve` starts the server"),
    (&["del"], "`pinion.delete(pattern, handler)`"),
    (&["broadcast", "emit", "publish"], "`pinion.send(channel, value)`"),
];

/// The beginnings of errors, before the name of the absent function.
const ABOUT: &[&str] =
    &["attempt to index ", "attempt to call ", "there is no variable ", "there is no module "];

/// The error of Lua's own `next`, called without arguments.
const OWN_NEXT: &str = "bad argument #1 to 'next' (table expected, got no value)";

/// Returns the hint that follows the first line of an error.
pub(crate) fn advice(line: &str) -> Option<String> {
    if line.ends_with(OWN_NEXT) {
        let why = " (this is Lua's own `next`: a middleware gets the one to call as its third \
                   parameter, `function(req, res, next)`)";
        return Some(why.to_owned());
    }
    let behind = ABOUT.iter().find_map(|about| line.split_once(about)).map(|(_, behind)| behind)?;
    let name = behind.split(['\'', '"']).nth(1).unwrap_or_default();
    if let Some((_, whole, instead)) = ABSENT.iter().find(|(absent, ..)| *absent == name) {
        return Some(format!(
            " (there is no `{whole}` in the sandbox: {instead}; `--lua-unsafe` opens all)"
        ));
    }
    if behind.contains("a boolean value") && line.contains("attempt to index") {
        let why = " (if it comes from require: the module returns nothing; end it with `return` \
                   and its table)";
        return Some(why.to_owned());
    }
    if let Some(kind) =
        ["a table value", "a string value"].iter().find(|kind| behind.starts_with(**kind))
    {
        let why = match *kind {
            "a table value" => " (in a `for` loop write `pairs(t)` or `ipairs(t)`)",
            _ => {
                " (a `for` loop needs a function, such as `req:pieces()` or `text:gmatch(pattern)`)"
            }
        };
        return Some(why.to_owned());
    }
    if behind.contains("a function value")
        && ["body", "json", "form", "read", "field"].contains(&name)
    {
        return Some(format!(" (`{name}` is a method: call it with a colon, as `req:{name}()`)"));
    }
    let is_missing = behind.contains("a nil value")
        && ["method", "field"].iter().any(|kind| behind.contains(kind));
    let (_, instead) = FOREIGN.iter().find(|(names, _)| is_missing && names.contains(&name))?;
    Some(format!(" (in Pinion: {instead})"))
}

#[cfg(test)]
mod tests {
    use crate::pages::test_site::{TestSite, program};

    #[test]
    fn errors_about_functions_outside_the_sandbox_name_a_replacement() {
        for (code, words) in [
            ("local f = io.open('/etc/passwd')", "no `io` in the sandbox: `pinion.fs` has files"),
            ("os.execute('ls')", "no `os.execute` in the sandbox: no programs"),
            ("local io = io; io.write('x')", "no `io` in the sandbox"),
            ("require('ffi')", "no `ffi` in the sandbox"),
            ("dofile('x.lua')", "no `dofile` in the sandbox: `require`"),
            ("debug.getinfo(1)", "no `debug.getinfo` in the sandbox: `debug.traceback`"),
            ("package.path = ''", "no `package` in the sandbox"),
        ] {
            let main = format!("\n{code}");
            let Err(problem) = TestSite::of(&program(&[("/main.lua", &main)]).expect("compiled"))
            else {
                panic!("{code}: it started");
            };
            assert!(problem.starts_with("/main.lua:2: "), "{problem}");
            assert!(problem.contains(words) && problem.contains("--lua-unsafe"), "{problem}");
        }
        let own = [("/main.lua", "local names = nil; names.x = 1")];
        let Err(problem) = TestSite::of(&program(&own).expect("compiled")) else {
            panic!("started")
        };
        assert!(!problem.contains("sandbox"), "{problem}");
        let mut site = TestSite::new(&[("/a.dyn.html", "<?lu io.write('x') ?>")]);
        assert!(site.report("/a").lines().next().expect("a line").contains("no `io` in the"));
    }

    #[test]
    fn errors_about_names_of_other_servers_give_those_of_pinion() {
        for (code, words) in [
            ("res:send('x')", "in Pinion: `res:write(text)`, or `return text`"),
            ("res:write_head(200)", "`res:status(code)` and `res:field(name, value)`"),
            ("res.headers['X-A'] = 'b'", "`res:field(name, value)` sets a header"),
            ("pinion.fs.mkdir('data/x')", "`pinion.fs.make_folder(path)`"),
            ("local file = {} file:save('x')", "`pinion.fs.write(path, file:read())`"),
            ("pinion.setTimeout(print, 5)", "`pinion.spawn(f)` with `pinion.sleep(seconds)`"),
            ("local m = true m.x()", "if it comes from require: the module returns nothing"),
            ("for k, v in { 1, 2 } do end", "in a `for` loop write `pairs(t)` or `ipairs(t)`"),
            ("for line in req:body() do end", "such as `req:pieces()`"),
            ("local name = req.body.name", "`body` is a method: call it with a colon, as `req:bod"),
            ("next()", "a middleware gets the one to call as its third parameter"),
        ] {
            let main = format!("pinion.get('/', function(req, res)\n{code} end)");
            let report = TestSite::new(&[("/main.lua", &main)]).report("/");
            let first = report.lines().next().expect("a line");
            assert!(first.starts_with("/main.lua:2: ") && first.contains(words), "{report}");
        }
        for line in ["a.lua:1: why", "a.lua:1: attempt to call method 'frob' (a nil value)"] {
            assert_eq!(super::advice(line), None);
        }
    }
}
