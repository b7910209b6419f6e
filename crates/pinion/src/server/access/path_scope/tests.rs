use super::*;
use proptest::prelude::*;

fn covers(scope: &str, path: &str) -> bool {
    PathScope::new(scope).covers(&PathReadings::of_sent(path.as_bytes()))
}

#[test]
fn a_scope_covers_its_path_and_all_below() {
    for (scope, path, expected) in [
        ("/", "/", true),
        ("/", "/a/b", true),
        ("/", "*", true),
        ("/", "", true),
        ("/admin", "/admin", true),
        ("/admin", "/admin/", true),
        ("/admin/", "/admin", true),
        ("/admin", "/admin/x", true),
        ("/admin", "/administrator", false),
        ("/admin", "/", false),
        ("/admin", "/x/admin", false),
        ("/a/b", "/a", false),
        ("/a/b", "/a/b/c", true),
    ] {
        assert_eq!(covers(scope, path), expected, "{path} and {scope}");
    }
}

#[test]
fn no_spelling_bypasses_a_scope() {
    for path in [
        "/ADMIN/x",
        "/%61dmin/x",
        "/%2561dmin/x",
        "/%25%36%31dmin/x",
        "//admin/x",
        "/./admin/x",
        "/x/../admin",
        "/x/%2e%2e/admin",
        "/x/%2E./admin",
        "/x/..%2fadmin",
        "/..%2fadmin",
        "/../admin",
        "/admin./x",
        "/admin.../x",
        "/admin%20/x",
        "/admin;a=b/x",
        "/admin%3Ba/x",
        "/admin%00/x",
        "/x/..;/admin",
        "/x%2F..%2Fadmin",
        "/%2Fadmin",
        "/admin%2Fx",
        "\\admin\\x",
        "/%5Cadmin",
        "/admin.html",
        "/admin.txt",
        "/admin/index.html",
        "/admin/../admin",
        "/admin/..;/x",
        "/admin/%zz",
        "/%zz/../admin",
    ] {
        assert!(covers("/admin", path), "{path}");
    }
    for path in ["/x/admin", "/admin2", "/adm%69n2", "/x/..%2f..%2fadmins", "/admin-x.html"] {
        assert!(!covers("/admin", path), "{path}");
    }
}

#[test]
fn a_file_scope_covers_exactly_the_names_of_the_file() {
    for path in ["/docs/index.html", "/docs/index", "/docs/", "/docs", "/docs/_index.htm"] {
        assert!(covers("/docs/index.html", path), "{path}");
    }
    assert!(!covers("/docs/index.html", "/docs/other"));
    assert!(!covers("/docs/index.html", "/docs/a/"));
    for path in ["/about", "/about.html", "/about/", "/ABOUT.HTML", "/about.html/x"] {
        assert!(covers("/about.html", path), "{path}");
    }
    assert!(!covers("/about.html", "/about/x"));
    for path in ["/", "/index.html", "/index", "/index.htm"] {
        assert!(covers("/index.html", path), "{path}");
    }
    assert!(!covers("/index.html", "/a"));
    assert!(covers("/report.pdf", "/report.pdf") && !covers("/report.pdf", "/report"));
}

/// Spells a byte in one of the ways that some server treats as the same.
fn spelled(byte: u8, way: u8) -> String {
    let plain = char::from(byte);
    match way {
        0 | 1 => plain.to_string(),
        2 => plain.to_ascii_uppercase().to_string(),
        3 => format!("%{byte:02x}"),
        4 => format!("%{byte:02X}"),
        5 => format!("%25{byte:02X}"),
        _ => format!("%{:02X}", plain.to_ascii_uppercase() as u8),
    }
}

proptest! {
    /// However a path below a scope is spelled, it is covered.
    #[test]
    fn every_spelling_is_covered(
        segments in prop::collection::vec("[a-z][a-z0-9]{0,3}", 1..4),
        below in prop::collection::vec("[a-z]{1,3}", 0..3),
        ways in prop::collection::vec(0_u8..7, 1..40),
        noise in prop::collection::vec(0_u8..12, 1..12),
    ) {
        let scope = format!("/{}", segments.join("/"));
        let (mut ways, mut noise) = (ways.iter().cycle(), noise.iter().cycle());
        let mut path = String::new();
        for segment in segments.iter().chain(&below) {
            path += match noise.next() {
                Some(0) => "//",
                Some(1) => "/./",
                Some(2) => "/x/../",
                Some(3) => "/%2e/",
                Some(4) => "/x/%2E%2e/",
                Some(5) => "%2F",
                Some(6) => "%5c",
                Some(7) => "/x/..;y/",
                _ => "/",
            };
            let bytes = segment.bytes();
            path.extend(bytes.map(|byte| spelled(byte, *ways.next().expect("a cycle"))));
            path += match noise.next() {
                Some(8) => ";p=1",
                Some(9) => ".",
                Some(10) => "%20",
                Some(11) => "%00",
                _ => "",
            };
        }
        prop_assert!(covers(&scope, &path), "{} and {}", path, scope);
    }

    /// A path with only one reading has the same result as any other.
    #[test]
    fn the_fast_path_equals_the_slow_path(
        scope in "(/[a-c.]{1,3}){0,3}/?",
        path in "(/[a-c_.]{0,3}){0,4}(\\.html|/index)?",
    ) {
        let scope = PathScope::new(if scope.is_empty() { "/" } else { &scope });
        let readings = PathReadings::of_sent(path.as_bytes());
        let mut others = vec![path.as_bytes().to_vec()];
        others.extend(loose_readings(path.as_bytes()));
        if readings.plain.is_some() {
            let long = PathReadings { plain: None, others };
            prop_assert_eq!(scope.covers(&readings), scope.covers(&long), "{}", path);
        }
    }

    #[test]
    fn no_path_panics(scope in "\\PC{0,12}", path: Vec<u8>) {
        let scope = PathScope::new(&scope);
        let _ = scope.covers(&PathReadings::of_sent(&path));
        let _ = scope.covers(&PathReadings::of_decoded(&path));
    }
}
