use super::*;
use crate::walk::file_kinds_by_name::{is_copy_of_code, is_script};

fn judge(exclude: &[&str], key: &str) -> FileVerdict {
    judge_with(exclude, &[], key)
}

fn judge_with(exclude: &[&str], include: &[&str], key: &str) -> FileVerdict {
    let [exclude, include] =
        [exclude, include].map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
    let name = key.rsplit('/').next().unwrap();
    NameFilter::new(&exclude, &include).unwrap().judge(key.as_bytes(), name.as_bytes())
}

#[test]
fn leftover_files_are_skipped() {
    for name in [
        "Thumbs.db",
        ".DS_Store",
        ".git",
        ".htaccess",
        "#x#",
        "##",
        ".#x",
        "x~",
        "x.log",
        "x.tmp",
        "x.temp",
        "yarn.lock",
        ".x.lua~",
    ] {
        assert_eq!(judge(&[], &format!("/a/{name}")), FileVerdict::Skip, "{name}");
    }
    for name in [
        ".well-known",
        "a.html",
        "logs",
        "x.lock.html",
        "thumbs.db",
        "200.png",
        "c#",
        "#",
        "#x",
        "x#y",
        "f#.html",
    ] {
        assert_eq!(judge(&[], &format!("/a/{name}")), FileVerdict::Take, "{name}");
    }
}

#[test]
fn included_leftover_files_are_taken() {
    for (exclude, include, key, expected) in [
        (&[][..], &[".htaccess"][..], "/a/.htaccess", FileVerdict::Take),
        (&[], &["*.log", "/b/.*"], "/a/x.log", FileVerdict::Take),
        (&[], &["*.log", "/b/.*"], "/b/.x", FileVerdict::Take),
        (&[], &["*.log", "/b/.*"], "/a/.x", FileVerdict::Skip),
        (&["x.log"], &["*.log"], "/a/x.log", FileVerdict::Skip),
        // What is code, private or has rules is never published.
        (&[], &["*"], "/a/x.priv.key", FileVerdict::Special),
        (&[], &["*"], "/a/.x.lua", FileVerdict::Special),
        (&[], &["*"], "/_headers", FileVerdict::Special),
        (&[], &["*", ".*"], "/.site.pinion.draft-1-0.tmp", FileVerdict::Skip),
    ] {
        assert_eq!(judge_with(exclude, include, key), expected, "{include:?} {key}");
    }
}

#[test]
fn sources_of_scripts_are_left_out_unless_included() {
    for name in [
        "index.php",
        "A.PHP",
        "x.Php5",
        "x.phtml",
        "x.phar",
        "x.phps",
        "form.cgi",
        "a.fcgi",
        "config.php.bak",
        "config.php_old",
        "config.php-orig",
        "config.PHP.Save",
        "x.php.1",
        "a.php copy",
    ] {
        assert_eq!(judge(&[], &format!("/a/{name}")), FileVerdict::Skip, "{name}");
        assert_eq!(judge_with(&[], &["*"], &format!("/a/{name}")), FileVerdict::Take, "{name}");
    }
    for name in ["php", "x.php.jpg", "php.html", "xphp", "a.php.html", "x.cgi.txt", "php5", "a.bak"]
    {
        assert_eq!(judge(&[], &format!("/a/{name}")), FileVerdict::Take, "{name}");
    }
}

#[test]
fn special_names_are_recognized_in_any_case() {
    for name in [
        "x.lua",
        "X.LUA",
        "x.dyn.html",
        "x.priv.key",
        "keys.PRIV.d",
        "_redirects",
        "_Redirects.txt",
        "_headers",
        "pinion.toml",
        "a.dyn.",
        ".x.lua",
    ] {
        assert_eq!(judge(&[], &format!("/a/{name}")), FileVerdict::Special, "{name}");
    }
    for name in ["lua", "x.luac", "dyn.html", "x.dynamic.html", "redirects", "_redirects.html"] {
        assert_eq!(judge(&[], &format!("/a/{name}")), FileVerdict::Take, "{name}");
    }
}

#[test]
fn exclude_patterns_match_names_and_paths() {
    for (pattern, key, expected) in [
        ("*.psd", "/a/b/x.psd", FileVerdict::Skip),
        ("*.psd", "/x.psd.html", FileVerdict::Take),
        ("drafts", "/a/drafts", FileVerdict::Skip),
        ("drafts/", "/a/drafts", FileVerdict::Skip),
        ("/drafts", "/drafts", FileVerdict::Skip),
        ("/drafts", "/a/drafts", FileVerdict::Take),
        ("./drafts", "/drafts", FileVerdict::Skip),
        ("./drafts/", "/a/drafts", FileVerdict::Take),
        ("./.././x", "/x", FileVerdict::Take),
        ("a/*.md", "/a/x.md", FileVerdict::Skip),
        ("a/*.md", "/a/b/x.md", FileVerdict::Take),
        ("a/**/*.md", "/a/b/c/x.md", FileVerdict::Skip),
        ("**/x", "/x", FileVerdict::Skip),
        ("x.{js,css}", "/a/x.css", FileVerdict::Skip),
        ("*.lua", "/x.lua", FileVerdict::Skip),
    ] {
        assert_eq!(judge(&[pattern], key), expected, "{pattern} {key}");
    }
}

/// Whether it may be part, and whether it may matter to a static site and to a dynamic one.
fn part_and_matters(names: &NameFilter, path: &str) -> (bool, [bool; 2]) {
    let path = Path::new(path);
    let matters = [false, true].map(|is_dynamic| names.may_matter(path, is_dynamic));
    (names.may_be_part(path), matters)
}

#[test]
fn files_in_an_excluded_folder_are_not_part_of_the_site() {
    let names = NameFilter::new(&["drafts".to_owned(), "/old/*.md".to_owned()], &[]).unwrap();
    for path in ["", "a.html", "a/b/c.html", ".well-known/x", "new/x.md", "old/a/x.md"] {
        assert_eq!(part_and_matters(&names, path), (true, [true, true]), "{path}");
    }
    for path in [".git", ".git/index", "a/drafts/b/c.html", "old/x.md", "a.log", "x.lua/y"] {
        assert_eq!(part_and_matters(&names, path), (false, [false, false]), "{path}");
    }
}

#[test]
fn rules_files_affect_the_site_without_being_part_of_it() {
    let names = NameFilter::new(&["drafts".to_owned()], &[]).unwrap();
    for path in ["_headers", "_redirects.txt", "a/_redirects"] {
        assert_eq!(part_and_matters(&names, path), (false, [true, true]), "{path}");
    }
    for path in ["_Headers", "drafts/_redirects", ".git/_redirects", ".x.lua", "drafts/x.lua"] {
        assert_eq!(part_and_matters(&names, path).1, [false, false], "{path}");
    }
}

#[test]
fn a_static_site_depends_on_code_that_would_make_it_dynamic() {
    let names = NameFilter::new(&[], &[]).unwrap();
    for path in ["main.lua", "a.dyn.html", "public_html/a.dyn.html"] {
        assert_eq!(part_and_matters(&names, path), (false, [true, true]), "{path}");
    }
    for path in ["lib/x.lua", "lib/main.lua", "a/b.priv.txt", "a.dyn.priv.html"] {
        assert_eq!(part_and_matters(&names, path), (false, [false, true]), "{path}");
    }
}

#[test]
fn kinds_of_code_are_recognized_by_name() {
    for (name, code, page, script) in [
        ("main.lua", true, false, true),
        ("X.LUA", true, false, true),
        ("a.dyn.html", true, true, false),
        ("a.DYN.html", true, true, false),
        ("a.dyn.priv.html", true, false, false),
        ("a.priv.html", true, false, false),
        ("a.dyn.lua", true, false, true),
        (".x.lua", false, false, false),
        ("a.dyn.html~", false, false, false),
        ("x.lua.gz", false, false, false),
        ("a.dyn.html.gz", false, false, false),
        ("_redirects", false, false, false),
        ("a.html", false, false, false),
    ] {
        let name = name.as_bytes();
        let found = (is_code(name), is_page(name), is_script(name));
        assert_eq!(found, (code, page, script), "{}", name.escape_ascii());
    }
    for name in ["x.Lua.gz", "x.lua ", "x.luac", "a.DYN.html.gz"] {
        assert!(is_copy_of_code(name.as_bytes()), "{name}");
    }
    assert!(!is_copy_of_code(b"x.lua") && !is_copy_of_code(b"x.html"));
}

#[test]
fn a_bad_pattern_is_named() {
    let error = NameFilter::new(&["a[".to_owned()], &[]).err().unwrap().to_string();
    assert!(error.contains("a["), "{error}");
}

/// What is read for each request is no part of a build, and no build depends on it.
#[test]
fn live_folders_are_left_out() {
    let live = |folders: &[&str]| {
        let folders: Vec<String> = folders.iter().map(|&one| one.to_owned()).collect();
        NameFilter::new(&[], &[]).expect("no patterns").without_live(&folders)
    };
    let some = live(&["media", "a/b"]);
    for path in ["media", "media/x.html", "media/d/x.html", "a/b", "a/b/x.html"] {
        assert_eq!(part_and_matters(&some, path), (false, [false; 2]), "{path}");
    }
    for path in ["media.html", "mediax/x.html", "x/media/x.html", "a", "a/x.html", "b/x.html"] {
        assert_eq!(part_and_matters(&some, path), (true, [true; 2]), "{path}");
    }
    let all = live(&[""]);
    for path in ["index.html", "a/x.html", "a/404.html"] {
        assert_eq!(part_and_matters(&all, path), (false, [false; 2]), "{path}");
    }
    for path in ["404.html", "_404.html", "_500.html"] {
        assert_eq!(part_and_matters(&all, path), (true, [true; 2]), "{path}");
    }
    assert_eq!(part_and_matters(&all, "_headers"), (false, [true; 2]));
}
