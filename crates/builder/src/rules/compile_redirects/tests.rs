use std::path::Path;

use super::super::redirect_loops::RedirectCircles;
use super::super::redirects::parse;
use super::*;
use crate::path_aliases::{FallbackPage, UrlPlan};

const FILES: [&[u8]; 4] = [b"/", b"/index.html", b"/file", b"/dir/"];

/// Entries, walked rules, warnings and loops of a file, in short; then the verdicts about files.
fn placed(text: &str) -> String {
    placed_on(&[], text)
}

/// The same for a site with hosts.
fn placed_on(hosts: &[&str], text: &str) -> String {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let rules = parse(Path::new("_redirects"), b"/", text.as_bytes()).expect(text);
    let plan = UrlPlan::default();
    let mut files = FILES;
    files.sort_unstable();
    let (aliases, slash_redirects) = (Vec::new(), true);
    let site = SitePaths { files: &files, plan: &plan, aliases, slash_redirects, hosts: &hosts };
    let compiled = CompiledRedirects::new(&rules);
    let PlacedRedirects { entries, walked, warnings } = compiled.place(&site);
    let RedirectCircles { certain, around } = compiled.circles(&site);
    let name = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let entries = entries.iter().map(|(path, rule)| format!("{}={rule}", name(path)));
    let walked = walked.iter().map(|rule| format!("walk {rule}"));
    let warnings = warnings.iter().map(|(rule, warning)| format!("{rule} {warning:?}"));
    let certain = certain.iter().map(|rule| format!("loop {rule}"));
    let around = around.iter().map(|rule| format!("{rule} Around"));
    let circles = certain.chain(around);
    let verdicts = FILES.iter().filter_map(|path| match compiled.verdict(path, &site) {
        EntryVerdict::Keep => None,
        verdict => Some(format!("{} {verdict:?}", name(path))),
    });
    let all: Vec<String> = entries.chain(walked).chain(warnings).chain(circles).collect();
    [all, verdicts.collect()].concat().join(", ")
}

#[test]
fn exact_rules_become_entries() {
    assert_eq!(placed("/a /b"), "/a=0, /a/=0");
    assert_eq!(placed("/a /file 200"), "/a=0, /a/=0");
    assert_eq!(placed("/a /file 404"), "/a=0, /a/=0");
    assert_eq!(placed("/a/ /b\n/b /c 302!"), "/a=0, /a/=0, /b=1, /b/=1");
    assert_eq!(placed("/* /file\n/a /b"), "walk 0, 1 Covered(0)");
    assert_eq!(placed("/a /b\n/* /x/:splat"), "/a=0, /a/=0, walk 1, 1 Around");
    assert_eq!(placed("/a x=1 /b\n/a /c"), "walk 0, walk 1");
    assert_eq!(placed("http://h/* /file\n/a /c"), "walk 0, walk 1");
    assert_eq!(placed("/a /b\n/a /c"), "/a=0, /a/=0, 1 Covered(0)");
    assert_eq!(placed("/a /none 200"), "walk 0, 0 Missing");
    assert_eq!(placed("/a /dir 200"), "/a=0, /a/=0");
    assert_eq!(placed("/a /file/ 200"), "/a=0, /a/=0");
}

#[test]
fn files_take_precedence_over_rules() {
    assert_eq!(placed("/file /b"), "0 FileFirst");
    assert_eq!(placed("/file/ /b\n/dir /c"), "0 FileFirst, 1 FileFirst");
    assert_eq!(placed("/file /b\n/f* /c"), "walk 1, 0 FileFirst");
    // Without the first rule, /file/ would be the second one's.
    assert_eq!(placed("/file /b\n/f* /c 302!"), "walk 0, walk 1");
    assert_eq!(placed("/* /index.html 200"), "walk 0");
}

#[test]
fn forced_rules_take_precedence_over_files() {
    assert_eq!(placed("/file /b 301!"), "/file/=0, /file Replace(0)");
    assert_eq!(placed("/dir/ /b 301!"), "/dir=0, /dir/ Replace(0)");
    assert_eq!(placed("/f* /b 301!"), "walk 0, /file Replace(0)");
    assert_eq!(placed("/file x=1 /b 301!"), "walk 0, /file RulesFirst");
    assert_eq!(placed("/file x=1 /b\n/f* /c 301!"), "walk 0, walk 1, /file RulesFirst");
    assert_eq!(placed("/file /none 200!"), "walk 0, 0 Missing, /file RulesFirst");
    assert_eq!(
        placed("http://h/* http://i/ 301!\n/file /c"),
        "walk 0, walk 1, 1 FileFirst, \
         / RulesFirst, /index.html RulesFirst, /file RulesFirst, /dir/ RulesFirst"
    );
}

#[test]
fn a_rewrite_serves_the_file_despite_a_forced_rule() {
    let text = "/file /b 301!\n/a /file 200";
    assert_eq!(placed(text), "/file/=0, /a=1, /a/=1, walk 0, /file RulesFirst");
    let text = "/file /b 301!\n/a /file/ 200";
    assert_eq!(placed(text), "/file/=0, /a=1, /a/=1, walk 0, /file RulesFirst");
    let text = "/file /b 301!\n/a/* /file/:splat 200";
    assert_eq!(placed(text), "/file/=0, walk 0, walk 1, /file RulesFirst");
}

#[test]
fn rules_that_redirect_to_themselves_are_refused() {
    for (text, is_loop) in [
        ("/a /a", true),
        ("/a /a/", true),
        ("/a /a?x=1", true),
        ("/a x=1 /a?y=1", false),
        ("/a/* /a/:splat 302", true),
        ("/a/* /a/b/:splat 302", false),
        ("/a/* /a/b/:splat 302!", true),
        ("/* /none 302", true),
        ("/* /index.html 302", false),
        ("/* /index.html 302!", true),
        ("/* https://example.org/:splat 301!", false),
        ("http://example.org/* https://example.org/:splat 301!", true),
        ("http://example.org/* https://www.example.org/:splat 301!", false),
        ("http://*.example.org/* https://example.org/:splat", false),
        ("http://*.example.org/* https://www.example.org/:splat", true),
        ("/:x/:y /:y/:x", false),
        ("/:x /:x", true),
        ("/a /a 200", false),
        ("/a%20b /a%20b#c", true),
        ("/a x=1 /b\n/a /a", true),
        // An earlier rule responds.
        ("/soon /index.html 200\n/* /soon 302", false),
        ("/a/b/* /b/:splat 301!\n/a/* /a/b/:splat 301!", false),
    ] {
        assert_eq!(placed(text).contains("loop "), is_loop, "{text}: {}", placed(text));
    }
}

/// With `--lax-rules` those that are found are left out: each rule that they hide is found too.
#[test]
fn all_rules_that_redirect_to_themselves_are_found() {
    for (text, expected) in [
        ("/a /a\n/a /a 302\n/a /b\n/a /a", "loop 0, loop 1"),
        ("/* /:splat\n/* /:splat 302\n/a/* /a/:splat", "loop 0, loop 1, loop 2"),
    ] {
        let found = placed(text);
        assert!(found.contains(expected), "{text}: {found}");
        assert_eq!(found.matches("loop").count(), expected.matches("loop").count(), "{found}");
    }
}

/// A redirect to a host of the site comes back to it.
#[test]
fn loops_through_hosts_of_the_site_are_found() {
    for (hosts, text, expected) in [
        (&[][..], "/* https://example.org/:splat 301!", "walk 0"),
        (&["example.org"], "/* https://example.org/:splat 301!", "loop 0"),
        (&["*.example.org"], "/* https://www.example.org/:splat 301!", "loop 0"),
        (&["*.example.org"], "/* https://example.org/:splat 301!", "walk 0"),
        (&["example.org"], "/* https://example.com/:splat 301!", "walk 0"),
        (&["example.org"], "/a https://example.org/a", "loop 0"),
        (&["example.org"], "/a https://example.org:3000/a", "/a=0, /a/=0"),
        (&["example.org"], "/g/* https://example.org:3000/g/:splat", "0 Around"),
        (&["example.org"], "/a https://example.org/b\n/b /a", "0 Around, 1 Around"),
        (&["example.org"], "/a https://example.org/file", "/a=0, /a/=0"),
        (&["example.org"], "http://example.com/* https://a.net/ 302!", "0 ForeignHost"),
        (&["example.org"], "http://*.example.org/* https://a.net/ 302!", "0 ForeignHost"),
        (&["*.example.org"], "http://a.example.org/* https://a.net/ 302!", "walk 0"),
        (&["a.example.org"], "http://*.example.org/* https://a.net/ 302!", "walk 0"),
    ] {
        let found = placed_on(hosts, text);
        assert!(found.contains(expected), "{hosts:?} {text}: {found}");
        let is_certain = expected.contains("loop");
        assert_eq!(found.contains("loop"), is_certain, "{hosts:?} {text}: {found}");
        let is_foreign = expected.contains("ForeignHost");
        assert_eq!(found.contains("ForeignHost"), is_foreign, "{hosts:?} {text}: {found}");
    }
}

#[test]
fn rewrites_without_a_possible_target_are_warned_about() {
    for (text, is_missing) in [
        ("/api/* /.netlify/functions/:splat 200", true),
        ("/posts/* /posts/:splat.html 200!", true),
        ("/i/* /:splat.html 200", true),
        ("/i/* /:splat 200", false),
        ("/i/* /:splat/ 200", false),
        ("/i/* /ind:splat 200", true),
        ("/i/* /index:splat 200", false),
        ("/:x /index.:x 200", false),
        ("/:x /fi:x 200", false),
        ("/:x /dir/:x 200", true),
        ("/a/* /dir/:splat 200", false),
        ("/a/* /dir:splat 200", false),
        ("/:x/* /f:x-:splat 200", true),
        ("/x id=:id /f:id 200", false),
        ("/x id=:id /g:id 404", true),
        ("/x/* /file/:splat 302", false),
    ] {
        assert_eq!(placed(text).contains("Missing"), is_missing, "{text}: {}", placed(text));
    }
}

/// A missing target of a rewrite has the response of the page for missing resources, if any.
#[test]
fn rewrites_to_a_fallback_page_of_status_200_are_not_missing() {
    for (status, text, is_missing) in [
        (200, "/a /dir/x 200", false),
        (200, "/a /dir 200", false),
        (200, "/a/* /dir/x/:splat 200", false),
        (200, "/a /none 200", true),
        (200, "/a/* /none/:splat 200", true),
        (404, "/a /dir/x 200", true),
    ] {
        let rules = parse(Path::new("_redirects"), b"/", text.as_bytes()).expect(text);
        let fallbacks = vec![FallbackPage { file: 0, folder: b"/dir/", status }];
        let plan = UrlPlan { fallbacks, ..UrlPlan::default() };
        let (aliases, slash_redirects) = (Vec::new(), true);
        let site = SitePaths { files: &[], plan: &plan, aliases, slash_redirects, hosts: &[] };
        let PlacedRedirects { warnings, .. } = CompiledRedirects::new(&rules).place(&site);
        let expected = if is_missing { vec![(0, RedirectWarning::Missing)] } else { Vec::new() };
        assert_eq!(warnings, expected, "{status} {text}");
    }
}

#[test]
fn chains_of_redirects_that_loop_are_warned_about() {
    for (text, is_around) in [
        ("/a/* /a/b/:splat", true),
        ("/dir/* /dir/x/:splat", true),
        ("/* /dir/:splat", false),
        ("/* /d/:splat", true),
        ("/:x /x-:x", true),
        ("/a/b/* /dir/:splat 200\n/a/* /a/b/:splat", false),
        ("/a /b\n/b /a", true),
        ("/a /b\n/b/ /c/?x#y\n/c /a", true),
        ("/a /file\n/file /a 302!", true),
        ("/a /b\n/* /a", true),
        ("/a /b\n/b /file", false),
        ("/a /file\n/file /a", false),
        ("/a /b\n/b /a 200", false),
        ("/a /b\n/b x=1 /a", false),
        ("/a /b\nhttp://h/b /c\n/b /a", false),
        ("/a /b\n/b https://example.org/a", false),
        ("/a/* /b/:splat", false),
        ("/a/* x=1 /a/b/:splat", false),
        ("/a/* /a/b/:splat 200", false),
        ("/a/* https://example.org/a/:splat", false),
    ] {
        assert_eq!(placed(text).contains("Around"), is_around, "{text}: {}", placed(text));
    }
}
