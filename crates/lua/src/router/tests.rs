use super::*;
use proptest::prelude::*;

fn router(routes: &[(&str, &str)]) -> Router {
    let mut router = Router::new();
    for (method, pattern) in routes {
        let method = (*method != "any").then_some(*method);
        router.add(method, pattern).expect(pattern);
    }
    router
}

/// The pattern that a request finds, and its values.
fn found(router: &Router, method: &str, path: &str) -> (String, Vec<String>) {
    match router.find(method.as_bytes(), path.as_bytes()) {
        FoundRoute::Route(found) => (
            router.pattern(found.route).expect("a route").to_owned(),
            found.values().map(|range| path[range].to_owned()).collect(),
        ),
        FoundRoute::Methods(methods) => ("methods".to_owned(), methods),
        FoundRoute::Nothing => ("nothing".to_owned(), Vec::new()),
    }
}

#[test]
fn literal_segments_take_precedence_over_parameters_and_wildcards() {
    let router = router(&[
        ("GET", "/*all"),
        ("GET", "/a/:x"),
        ("GET", "/a/b"),
        ("GET", "/:x/b/c"),
        ("GET", "/a/:x/d"),
        ("POST", "/a/b"),
        ("any", "/any"),
        ("GET", "/"),
        ("GET", "/dir/"),
    ]);
    let mut sorted_any = ANY.to_vec();
    sorted_any.sort_unstable();
    for (method, path, pattern, values) in [
        ("GET", "/a/b", "/a/b", &[][..]),
        ("HEAD", "/a/b", "/a/b", &[]),
        ("GET", "/a/x", "/a/:x", &["x"]),
        // No way ends behind the text, so the parameter is tried.
        ("GET", "/a/b/c", "/:x/b/c", &["a"]),
        ("GET", "/a/b/d", "/a/:x/d", &["b"]),
        ("GET", "/a/b/e", "/*all", &["a/b/e"]),
        ("GET", "/a/", "/*all", &["a/"]),
        ("GET", "/", "/", &[]),
        ("GET", "/dir/", "/dir/", &[]),
        ("GET", "/dir", "/*all", &["dir"]),
        ("GET", "//", "/*all", &["/"]),
        ("POST", "/a/b", "/a/b", &[]),
        ("PUT", "/any", "/any", &[]),
        ("TRACE", "/any", "methods", &sorted_any),
        ("POST", "/a/x", "methods", &["GET", "HEAD"]),
        ("DELETE", "/a/b", "methods", &["GET", "HEAD", "POST"]),
    ] {
        let (have, have_values) = found(&router, method, path);
        assert_eq!((have.as_str(), have_values.len()), (pattern, values.len()), "{method} {path}");
        let mut sorted = have_values;
        sorted.sort();
        assert_eq!(sorted, values, "{method} {path}");
    }
    assert_eq!(found(&router, "GET", "no slash").0, "nothing");
}

#[test]
fn invalid_and_duplicate_patterns_are_refused() {
    let mut router = router(&[("GET", "/a/:x"), ("any", "/b")]);
    let many: String = (0..=PATTERN_PARAMETERS_MAX).map(|n| format!("/:p{n}")).collect();
    for (method, pattern, why) in [
        (Some("GET"), "a", PatternError::NoSlash),
        (Some("GET"), "", PatternError::NoSlash),
        (Some("GET"), "/*a/b", PatternError::RestNotLast),
        (Some("GET"), "/:", PatternError::Nameless(':')),
        (Some("GET"), "/*", PatternError::Nameless('*')),
        (Some("GET"), "/:a-b", PatternError::Name("a-b".to_owned())),
        (Some("GET"), "/:a/:a", PatternError::NameTwice("a".to_owned())),
        (Some("GET"), "/a?b=c", PatternError::Character('?')),
        (Some("GET"), "/a%20b", PatternError::Character('%')),
        (Some("G T"), "/a", PatternError::Method("G T".to_owned())),
        (Some("GET"), "/a/:other", PatternError::Taken("/a/:x".to_owned())),
        (None, "/b", PatternError::Taken("/b".to_owned())),
        (None, &many, PatternError::TooManyParameters),
        (None, &format!("/{}", "x".repeat(PATTERN_MAX_BYTES)), PatternError::TooLong),
    ] {
        assert_eq!(router.add(method, pattern), Err(why), "{pattern}");
    }
    assert_eq!(found(&router, "GET", "/a/1").0, "/a/:x");
}

#[test]
fn errors_about_patterns_say_how_to_write_them() {
    let mut router = Router::new();
    for (method, pattern, words) in [
        ("GET", "/a/:", "`:` needs a name, such as \"/hello/:name\""),
        ("GET", "/a/*", "`*` needs a name, such as \"/hello/*name\""),
        ("GET", "/a%20b", "write the pattern decoded: a space, not %20"),
        ("GET", "/a/:b?", "register a second pattern for a path without the parameter"),
        ("GET", "/:a-b", "\"a-b\" is not a valid name of a parameter; use letters, digits and"),
        ("GET IT", "/a", "\"GET IT\" is not a valid method"),
    ] {
        let why = router.add(Some(method), pattern).expect_err(pattern).to_string();
        assert!(why.contains(words), "{pattern}: {why}");
    }
}

#[test]
fn parameter_syntax_of_other_servers_is_recognized() {
    for (pattern, expected) in [
        ("/a/<id>", Some(("<id>", ":id"))),
        ("/a/<int:id>/b", Some(("<int:id>", ":id"))),
        ("/<path:file>", Some(("<path:file>", "*file"))),
        ("/<path:file>/x", Some(("<path:file>", ":file"))),
        ("/{id}", Some(("{id}", ":id"))),
        ("/{id:[0-9]+}/x", Some(("{id:[0-9]+}", ":id"))),
        ("/{*rest}", Some(("{*rest}", "*rest"))),
        ("/{rest...}", Some(("{rest...}", "*rest"))),
        ("/<>", Some(("<>", ":name"))),
        ("/:id/*rest", None),
        ("/a<b>/{c", None),
        ("/", None),
    ] {
        let expected = expected.map(|(text, instead)| (text, instead.to_owned()));
        assert_eq!(foreign_parameter(pattern), expected, "{pattern}");
    }
}

#[test]
fn a_path_is_below_a_prefix_by_whole_segments() {
    for (prefix, path, is_below) in [
        ("", "/", true),
        ("", "/a/b", true),
        ("/", "/a", true),
        ("/a", "/a", true),
        ("/a", "/a/", true),
        ("/a", "/a/b", true),
        ("/a/", "/a/b", true),
        ("/a/", "/a", true),
        ("/a", "/ab", false),
        ("/a/b", "/a", false),
        ("/a", "/b/a", false),
        ("/:x/b", "/a/b/c", true),
        ("/:x/b", "//b", false),
        ("/:x", "/", false),
    ] {
        assert_eq!(check_prefix(prefix), Ok(()), "{prefix}");
        assert_eq!(is_below_prefix(prefix, path), is_below, "{prefix} {path}");
    }
    for (prefix, why) in [
        ("a", PatternError::NoSlash),
        ("/*rest", PatternError::RestNotLast),
        ("/a%20b", PatternError::Character('%')),
        ("/:", PatternError::Nameless(':')),
    ] {
        assert_eq!(check_prefix(prefix), Err(why), "{prefix}");
    }
}

/// Returns the rank of a pattern that matches, without the others: smaller is better.
fn matches_alone(pattern: &str, path: &str) -> Option<Vec<u8>> {
    let mut rank = Vec::new();
    let mut rest = Some(&path[1..]);
    for segment in pattern[1..].split('/') {
        let left = rest?;
        if segment.starts_with('*') {
            rank.push(2);
            return Some(rank);
        }
        let (have, next) = match left.split_once('/') {
            Some((have, next)) => (have, Some(next)),
            None => (left, None),
        };
        match segment.starts_with(':') {
            true if have.is_empty() => return None,
            true => rank.push(1),
            false if have == segment => rank.push(0),
            false => return None,
        }
        rest = next;
    }
    rest.is_none().then_some(rank)
}

proptest! {
    /// The tree finds the same pattern as trying each of them alone.
    #[test]
    fn the_routing_tree_finds_the_pattern_of_a_linear_search(
        patterns in prop::collection::vec(
            prop::collection::vec("a|b||:x|:y|\\*z", 1..4), 1..12),
        paths in prop::collection::vec("(/(a|b|c|)){1,4}", 1..8),
    ) {
        let mut router = Router::new();
        let mut have = Vec::new();
        for segments in patterns {
            let pattern = format!("/{}", segments.join("/"));
            if router.add(Some("GET"), &pattern).is_ok() {
                have.push(pattern);
            }
        }
        for path in paths {
            let best = have
                .iter()
                .filter_map(|pattern| Some((matches_alone(pattern, &path)?, pattern)))
                .min();
            let found = found(&router, "GET", &path).0;
            match best {
                Some((_, pattern)) => prop_assert_eq!(&found, pattern, "{}", path),
                None => prop_assert_eq!(found, "nothing", "{}", path),
            }
        }
    }

    #[test]
    fn no_pattern_or_path_panics(pattern in "\\PC{0,40}", path in "\\PC{0,40}") {
        let mut router = Router::new();
        let _refused = router.add(Some("GET"), &pattern);
        let _found = router.find(b"GET", path.as_bytes());
    }
}
