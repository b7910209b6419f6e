//! What an error says beside itself where it is about something that Lua has elsewhere, and a
//! sandbox has not ([`crate::sandbox`]).

/// What is not there: the name that errors have, the whole name, and what to use in its place.
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

/// What errors about it say in front of its name.
const ABOUT: &[&str] =
    &["attempt to index ", "attempt to call ", "there is no variable ", "there is no module "];

/// What to say behind the first line of an error.
pub(crate) fn advice(line: &str) -> Option<String> {
    let behind = ABOUT.iter().find_map(|about| line.split_once(about)).map(|(_, behind)| behind)?;
    let name = behind.split(['\'', '"']).nth(1)?;
    let (_, whole, instead) = ABSENT.iter().find(|(absent, ..)| *absent == name)?;
    Some(format!(" (there is no `{whole}` in the sandbox: {instead}; `--lua-unsafe` opens all)"))
}

#[cfg(test)]
mod tests {
    use crate::pages::trial::{Site, program};

    #[test]
    fn what_is_elsewhere_is_told_what_to_use_here() {
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
            let Err(problem) = Site::of(&program(&[("/main.lua", &main)]).expect("compiled"))
            else {
                panic!("{code}: it started");
            };
            assert!(problem.starts_with("/main.lua:2: "), "{problem}");
            assert!(problem.contains(words) && problem.contains("--lua-unsafe"), "{problem}");
        }
        let own = [("/main.lua", "local names = nil; names.x = 1")];
        let Err(problem) = Site::of(&program(&own).expect("compiled")) else { panic!("started") };
        assert!(!problem.contains("sandbox"), "{problem}");
        let mut site = Site::new(&[("/a.dyn.html", "<?lu io.write('x') ?>")]);
        assert!(site.report("/a").lines().next().expect("a line").contains("no `io` in the"));
    }
}
