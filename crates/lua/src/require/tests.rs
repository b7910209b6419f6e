//! Modules through a VM.

use crate::limits::MODULES_SHOWN_MAX;
use crate::pages::test_site::{TestSite, program};
use crate::site_program::SiteProgram;

#[test]
fn modules_are_found_outside_and_inside_the_content_and_run_once() {
    let files = [
        ("//lib/db.lua", "loads = (loads or 0) + 1 return { name = 'beside ' .. ... }"),
        ("/lib/db.lua", "error('the one beside goes before')"),
        ("/lib/deep/x.lua", "#!/usr/bin/lua\nreturn require('lib.db').name .. ' within'"),
        ("/nothing.lua", ""),
        ("/no.lua", "return false"),
        ("/main.lua", "\u{feff}assert(require('nothing') == true and require('no') == false)"),
        ("/marked.lua", "\u{feff}#!/usr/bin/lua\nreturn 'marked'"),
        (
            "/a.dyn.txt",
            "<?lu local db = require('lib.db') ?>\
             #[[db.name]], #[[require('lib.deep.x')]], #[[loads]], #[[require('marked')]]",
        ),
    ];
    let mut site = TestSite::new(&files);
    for _ in 0..2 {
        assert_eq!(site.body("/a.txt"), "beside lib.db, beside lib.db within, 1, marked");
    }
}

#[test]
fn errors_of_require_have_the_line_of_the_call() {
    for (main, why) in [
        (
            "\nrequire('lib.none')",
            "/main.lua:2: there is no module \"lib.none\": neither //lib/none.lua nor \
             /lib/none.lua exists; the modules of the site are a, b, bytes, fails, self, torn",
        ),
        ("require(5)", "/main.lua:1: bad argument #1 to 'require' (string expected, got number)"),
        (
            "require('a')",
            "/b.lua:1: modules require each other in a circle: \"a\" requires \"b\" requires \
             \"a\"",
        ),
        (
            "require('self')",
            "/self.lua:1: modules require each other in a circle: \"self\" requires \"self\"",
        ),
        ("require('torn')", "/main.lua:1: cannot load the module \"torn\": /torn.lua:1: "),
        ("require('fails')", "/fails.lua:2: why"),
        ("require('bytes')", "/main.lua:1: cannot load the module \"bytes\": "),
        ("require('../etc/passwd')", "/main.lua:1: there is no module"),
    ] {
        let files = [
            ("/main.lua", main),
            ("/a.lua", "require('b')"),
            ("/b.lua", "require('a')"),
            ("/self.lua", "require('self')"),
            ("/torn.lua", "x ="),
            ("/fails.lua", "\nerror('why')"),
            ("/bytes.lua", "\u{1b}LJ\u{2}"),
        ];
        let Err(problem) = TestSite::of(&program(&files).expect("compiled")) else {
            panic!("{main}: it started");
        };
        assert!(problem.starts_with(why), "{main}: {problem}");
    }
}

#[test]
fn an_error_names_only_some_modules_of_a_large_site() {
    let main = ("/main.lua".to_owned(), "require('none')".to_owned());
    let others = (0..MODULES_SHOWN_MAX + 1).map(|n| (format!("//lib/m{n:02}.lua"), String::new()));
    for (count, shown) in [
        (0, "the site has no modules"),
        (1, "the modules of the site are lib.m00"),
        (MODULES_SHOWN_MAX + 1, "lib.m06, lib.m07 and others"),
    ] {
        let files: Vec<_> = others.clone().take(count).chain([main.clone()]).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        let Err(problem) = TestSite::of(&program(&files).expect("compiled")) else {
            panic!("it started");
        };
        assert!(problem.ends_with(shown), "{problem}");
    }
}

/// A module that has failed is tried again, and one that waits delays no other.
#[test]
fn a_module_that_fails_is_loaded_again_next_time() {
    let files = [
        ("/m.lua", "tries = (tries or 0) + 1 if tries < 3 then error('not yet') end return tries"),
        ("/slow.lua", "pinion.sleep(0.01) return 'slow'"),
        ("/a.dyn.txt", "#[[pcall(require, 'm') and 'well' or 'failed']] #[[require('slow')]]"),
    ];
    let mut site = TestSite::new(&files);
    for shown in ["failed slow", "failed slow", "well slow"] {
        assert_eq!(site.body("/a.txt"), shown);
    }
}

/// A program of one file has no folder in which modules could be.
#[test]
fn require_in_a_single_script_fails_and_names_the_remedy() {
    let main = b"\nrequire('lib.db')".to_vec();
    let Err(problem) = TestSite::of(&SiteProgram::new("site.lua", main)) else {
        panic!("it started")
    };
    let expected = "site.lua:2: there is no module \"lib.db\": a single script has no modules; put \
                    it into a folder as main.lua, with its modules beside it, and serve the folder";
    assert_eq!(problem, expected);
}
