//! Lines of `_redirects`, each part of them, and what is said about wrong ones.

use pinion_archive::SegmentPart;
use proptest::prelude::*;

use super::*;

fn rules_in(folder: &str, text: &str) -> Result<Vec<Redirect>, Vec<RuleError>> {
    parse(Path::new("_redirects"), folder.as_bytes(), text.as_bytes())
}

fn one(text: &str) -> Redirect {
    let mut rules = rules_in("/", text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    assert_eq!(rules.len(), 1, "{text}");
    rules.remove(0)
}

fn error(text: &str) -> String {
    let errors = rules_in("/", text).expect_err(text);
    errors.iter().map(RuleError::to_string).collect::<Vec<_>>().join("\n")
}

fn literal(text: &str) -> RedirectPart {
    RedirectPart::Literal(text.as_bytes().into())
}

fn target(parts: &[TargetPart]) -> String {
    let parts = parts.iter().map(|part| match part {
        TargetPart::Literal(text) => text.escape_ascii().to_string(),
        TargetPart::Capture(number) => format!("<{number}>"),
    });
    parts.collect()
}

#[test]
fn words_are_path_target_and_status() {
    let rule = one("/a/b /c 302! # why");
    assert_eq!((rule.status, rule.force, rule.keeps_query), (302, true, true));
    assert_eq!(rule.path, [literal("a"), literal("b")]);
    assert_eq!(target(&rule.target), "/c");
    assert_eq!(one("/a /b").status, 301);
    assert_eq!(one("  /a\t/b\r").line, 1);
    assert_eq!(rules_in("/", "# none\n\n").unwrap(), []);
}

#[test]
fn captures_of_the_path_are_numbered_before_those_of_the_query() {
    let rule = one("/store/:x/* id=:id id2=7 /blog/:id/:splat/:x?y=:id 302");
    assert_eq!(
        rule.path,
        [literal("store"), RedirectPart::Capture, RedirectPart::Rest(Box::default())]
    );
    assert_eq!(
        rule.query,
        [
            (b"id".as_slice().into(), QueryValue::Capture),
            (b"id2".as_slice().into(), QueryValue::Is(b"7".as_slice().into()))
        ]
    );
    assert_eq!(target(&rule.target), "/blog/<2>/<1>/<0>?y=<2>");
    assert!(!rule.keeps_query);
}

#[test]
fn hosts_of_rules_have_no_port_and_are_lowercase() {
    for (from, host) in [
        ("http://Example.org:8080/a", Some("example.org")),
        ("https://*.Example.org/a", Some("*.example.org")),
        ("://example.org/a", Some("example.org")),
        ("https://*/a", None),
        ("https://[::1]:80/a", Some("[::1]")),
    ] {
        let rule = one(&format!("{from} /b"));
        assert_eq!(rule.host.as_deref(), host.map(str::as_bytes), "{from}");
        assert_eq!(rule.path, [literal("a")], "{from}");
    }
    assert_eq!(one("http://example.org https://example.com/ 301").path, []);
}

#[test]
fn targets_are_escaped_for_redirects_and_decoded_for_rewrites() {
    assert_eq!(target(&one("/a /ä%20\"?q=ü#f").target), "/%C3%A4%20%22?q=%C3%BC#f");
    assert_eq!(target(&one("/a /%C3%A4.html 200").target), "/\\xc3\\xa4.html");
    assert_eq!(target(&one("/a/* 200").target), "/a/<0>");
    assert_eq!(target(&one("/a/* 200!").target), "/a/<0>");
    assert_eq!(target(&one("/s /wiki/Special:Search 301").target), "/wiki/Special:Search");
    assert_eq!(target(&one("/:y/:m /p/:y-:m.html").target), "/p/<0>-<1>.html");
    assert_eq!(
        target(&one("/a https://Bücher.example:80/ü?x").target),
        "https://xn--bcher-kva.example:80/%C3%BC?x"
    );
    assert_eq!(one("/a https://bücher.example").target_host.as_deref(), BOOKS);
    assert_eq!(one("http://*.bücher.example/a /b").host.as_deref(), ALL_BOOKS);
    assert_eq!(target(&one("/a https://example.org:80/x:y").target), "https://example.org:80/x:y");
}

const BOOKS: Option<&[u8]> = Some(b"xn--bcher-kva.example");
const ALL_BOOKS: Option<&[u8]> = Some(b"*.xn--bcher-kva.example");

/// The parts of a path in short: `<…>` for a segment of texts and placeholders.
fn path(text: &str) -> String {
    let part = |part: &RedirectPart| match part.stored() {
        PathPart::Literal(text) => text.escape_ascii().to_string(),
        PathPart::Capture => ":".to_owned(),
        PathPart::Rest { prefix } => format!("{}*", prefix.escape_ascii()),
        PathPart::Mixed(pattern) => {
            let part = |part| match part {
                SegmentPart::Literal(text) => text.escape_ascii().to_string(),
                SegmentPart::Capture => ":".to_owned(),
                SegmentPart::Star => "*".to_owned(),
            };
            format!("<{}>", pattern.parts().map(part).collect::<String>())
        }
    };
    one(text).path.iter().map(|part_of| format!("/{}", part(part_of))).collect()
}

#[test]
fn placeholders_and_stars_within_segments() {
    for (text, expected) in [
        ("/*.:extension /b", "/<*.:>"),
        ("/p-:id /b", "/<p-:>"),
        ("/assets/:name.css /b", "/assets/<:.css>"),
        ("/*.txt /b", "/<*.txt>"),
        ("/k/kubectl_*.md /b", "/k/<kubectl_*.md>"),
        ("/a/*/b /b", "/a/<*>/b"),
        ("/a/b* /b", "/a/b*"),
        ("/a/:x-* /b", "/a/<:-*>"),
        ("/:year-:month /:year/:month", "/<:-:>"),
        ("/:my-name /b", "/:"),
        ("/:my-name /:my-name", "/:"),
        ("/:my-name /:my", "/<:-name>"),
        ("/File:Name /b", "/File:Name"),
        ("/v:major /b/:major", "/<v:>"),
        ("/a:80 /b", "/a:80"),
        ("/:a:b /:b", "/<::>"),
        ("/%2A.%3Ax /b", "/*.:x"),
        ("/. /b", ""),
    ] {
        if expected.is_empty() {
            assert!(rules_in("/", text).is_err(), "{text}");
        } else {
            assert_eq!(path(text), expected, "{text}");
        }
    }
    let rule = one("/*.:e k=:q /:splat/:e?:q 302");
    assert_eq!(target(&rule.target), "/<0>/<1>?<2>");
    assert_eq!(target(&one("/:a-:b/* 200").target), "/<0>-<1>/<2>");
}

#[test]
fn relative_rules_apply_below_their_folder() {
    let rule = rules_in("/docs/v1/", "./a/* ./b/:splat 302").unwrap().remove(0);
    let path = [literal("docs"), literal("v1"), literal("a"), RedirectPart::Rest(Box::default())];
    assert_eq!(rule.path, path);
    assert_eq!(target(&rule.target), "/docs/v1/b/<0>");
    assert_eq!(one("./a ./b").path, [literal("a")]);
    let errors = rules_in("/docs/", "/a /b\nhttps://h/a /b").unwrap_err();
    assert_eq!(errors.len(), 2);
    assert!(errors[0].expected.contains("./"), "{errors:?}");
}

#[test]
fn every_error_in_redirects_has_its_line_and_column() {
    for (text, expected) in [
        ("/a", "_redirects:1:3: expected a target: a path or a URL"),
        ("\n/a b", "_redirects:2:4: expected a target that begins"),
        ("/a 301", "_redirects:1:7: expected a target"),
        ("/a /b 300", "_redirects:1:7: expected a status"),
        ("/a /b 3011", "_redirects:1:7: expected a status"),
        ("/a /b 301!!", "_redirects:1:7: expected a status"),
        ("/a /b Country=us", "_redirects:1:7: expected no condition, found \"Country=us\"; "),
        ("/a /b 302 Language=de", "_redirects:1:11: expected no condition, found \"Language="),
        (
            "/a /b 302 x",
            "_redirects:1:11: expected the end of the line after the status, found \"x\"",
        ),
        ("/a /b x", "_redirects:1:7: expected a status such as 301, or the end of the line"),
        (
            "/a /b 301 force",
            "_redirects:1:11: expected the end of the line after the status, \
             found \"force\"; to win over a file, write 301!",
        ),
        (
            "/a /b 302 !",
            "_redirects:1:11: expected the end of the line after the status, found \
             \"!\"; to win over a file, write 302!",
        ),
        (
            "/a /b 301 [L]",
            "_redirects:1:11: expected the end of the line after the status, found \
             \"[L]\"; flags in brackets are of Apache; remove them",
        ),
        (
            "/a /b permanent",
            "_redirects:1:7: expected a status as a number, found \
             \"permanent\"; write 301",
        ),
        (
            "/a example.org/x",
            "_redirects:1:4: expected a target that begins with /, ./, http:// \
             or https://, found \"example.org/x\"; write https://example.org/x",
        ),
        (
            "/a b.html",
            "_redirects:1:4: expected a target that begins with /, ./, http:// or \
             https://, found \"b.html\"; write `/old /new`",
        ),
        ("a /b", "_redirects:1:1: expected a path"),
        ("/a?x=1 /b", "_redirects:1:3: expected a path without ?"),
        ("/a#x /b", "_redirects:1:3: expected a path without #"),
        ("/a//b /b", "_redirects:1:4: expected a name"),
        ("/a/../b /b", "_redirects:1:4: expected a name"),
        ("/%zz /b", "_redirects:1:2: expected two hexadecimal digits"),
        ("/a%2fb /b", "_redirects:1:3: expected a path without %2F"),
        ("/a/*/b* /b", "_redirects:1:7: expected at most one *"),
        ("/a*b* /b", "_redirects:1:5: expected at most one *"),
        ("/:a/:a /b", "_redirects:1:5: expected another name"),
        ("/: /b", "_redirects:1:2: expected a placeholder"),
        ("/a :x /b", "_redirects:1:4: expected key=value"),
        ("/a x=1 x=2 /b", "_redirects:1:8: expected another parameter"),
        ("/a /:x", "_redirects:1:5: expected a placeholder of the path or query"),
        ("/a/* /:splat/:y", "_redirects:1:14: expected a placeholder"),
        ("/a https://example.org/ 200", "_redirects:1:4: expected a path of this site"),
        ("/a //example.org/ 404", "_redirects:1:4: expected a path of this site"),
        ("/a /b?c 200", "_redirects:1:6: expected a path without ?"),
        ("/a/:x https://:x.example.org/", "_redirects:1:15: expected a host"),
        (
            "/a /b 300 # x",
            "_redirects:1:7: expected a status: 200, 301, 302, 303, 307, 308, \
             4xx or 5xx, found \"300\"; a !",
        ),
        ("/a?x=1 /b", "_redirects:1:3: expected a path without ?, found \"?x=1\"; write"),
        ("/a /:x", "_redirects:1:5: expected a placeholder of the path or query, found \":x\""),
        ("http:///a /b", "_redirects:1:8: expected a host"),
        ("http://u@h/a /b", "_redirects:1:8: expected a host"),
        ("http://a.*/a /b", "_redirects:1:8: expected a host"),
    ] {
        let found = error(text);
        assert!(found.starts_with(expected), "{text}: {found}");
    }
}

#[test]
fn all_errors_of_a_file_are_reported() {
    assert_eq!(error("/a\n/b /c\n/d 999 /e\n").lines().count(), 2);
}

#[test]
fn captures_and_rules_are_limited_in_number() {
    let path: String = (0..16).map(|number| format!("/:a{number}")).collect();
    assert_eq!(one(&format!("{path} /b")).path.len(), 16);
    assert!(error(&format!("{path}/* /b")).contains("at most 16"));
    let many = "/a /b\n".repeat(RULES_MAX + 2);
    assert_eq!(
        error(&many),
        format!(
            "_redirects:{}:1: expected at most 10000 rules; combine rules with * or \
             placeholders such as :name",
            RULES_MAX + 1
        )
    );
}

#[test]
fn placeholders_of_other_servers_are_recognized() {
    for (text, expected) in [
        ("/a/* /b/$1", Some((9, "$1", true))),
        ("/a/* /b/$splat", Some((9, "$splat", true))),
        ("/a/* /b\\1", Some((8, "\\1", true))),
        ("/a /b{path}", Some((6, "{path}", true))),
        ("/a https://b.example{http.request.uri.path}?x", None),
        (
            "/a https://b.example/{http.request.uri.path}",
            Some((22, "{http.request.uri.path}", true)),
        ),
        ("/a/(.*) /b", Some((4, "(.*)", false))),
        ("/a/{id} /b", Some((4, "{id}", false))),
        ("/a/* /b/:splat", None),
        ("/a /b(c)?d={}&e=$", None),
        ("/a$ /b", None),
    ] {
        let Ok(rules) = rules_in("/", text) else {
            assert_eq!(expected, None, "{text}");
            continue;
        };
        let found = rules[0].foreign_mark.as_ref();
        let found = found.map(|mark| (mark.column, &*mark.text, mark.is_in_target));
        assert_eq!(found, expected, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused_with_a_position(
        text in "([/:*.a#!= \n]|http://|200|301|%2f){0,60}",
    ) {
        let lines = text.split('\n').count();
        match rules_in("/", &text) {
            Ok(rules) => prop_assert!(rules.len() <= lines),
            Err(errors) => for error in errors {
                prop_assert!((1..=lines).contains(&error.line));
                let line = text.split('\n').nth(error.line - 1).unwrap();
                prop_assert!((1..=line.chars().count() + 1).contains(&error.column));
            },
        }
    }
}

/// A user who comes from another server learns how to write the line here.
#[test]
fn an_error_about_a_line_of_another_server_gives_the_replacement() {
    let of = |server: &str, word: &str, rule: &str| {
        format!(
            "1: expected a path that begins with /, found {word:?}; this is a line of {server}; \
             write `{rule}`"
        )
    };
    let arrow = |column: usize, word: &str, rule: &str| {
        let expected = "expected nothing between the path and the target";
        format!("{column}: {expected}, found {word:?}; write `{rule}`")
    };
    let comment = "1: expected a path, or a comment that begins with #, found \"//\"; // does not \
                   begin one";
    let url = "https://b.example/";
    for (text, expected) in [
        ("Redirect 301 /a /b".to_owned(), of("Apache", "Redirect", "/a /b 301")),
        ("Redirect /a /b".to_owned(), of("Apache", "Redirect", "/a /b 302")),
        (
            format!("Redirect permanent /a {url}"),
            of("Apache", "Redirect", &format!("/a {url} 301")),
        ),
        ("RewriteRule ^a$ /b [R=301,L]".to_owned(), of("Apache", "RewriteRule", "/old /new 301")),
        ("rewrite ^/a$ /b permanent;".to_owned(), of("nginx", "rewrite", "/old /new 301")),
        ("redir /a /b permanent".to_owned(), of("Caddy", "redir", "/a /b 301")),
        ("/a -> /b".to_owned(), arrow(4, "->", "/a /b")),
        ("/a => /b 302".to_owned(), arrow(4, "=>", "/a /b 302")),
        ("// a comment".to_owned(), comment.to_owned()),
        ("<!-- a -->".to_owned(), comment.replace("//", "<!--")),
        ("[[redirects]]".to_owned(), of("netlify.toml", "[[redirects]]", "/old /new 301")),
        ("from = \"/a\"".to_owned(), of("netlify.toml", "from", "/old /new 301")),
        ("to=\"/a\"".to_owned(), of("netlify.toml", "to=\"/a\"", "/old /new 301")),
    ] {
        assert_eq!(error(&text), format!("_redirects:1:{expected}"), "{text}");
    }
}
