use super::*;
use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
use pinion_http::limits::Limits;

fn with_head<T>(method: &str, fields: &str, run: impl FnOnce(&RequestHead<'_>) -> T) -> T {
    let text = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let mut storage = HeadStorage::new();
    match parse(text.as_bytes(), 0, &mut storage, &Limits::default()) {
        Ok(Parsed::Head { head, .. }) => run(&head),
        other => panic!("{other:?}"),
    }
}

fn only(origins: &[&str]) -> CorsPolicy {
    let origins = AllowedOrigins::Only(origins.iter().map(ToString::to_string).collect());
    CorsPolicy { origins, ..CorsPolicy::default() }
}

#[test]
fn an_origin_is_allowed_as_it_is_written() {
    let policy = only(&["https://a.test", "http://b.test:8080"]);
    for (fields, expected) in [
        ("Origin: https://a.test\r\n", true),
        ("Origin: http://b.test:8080\r\n", true),
        ("Origin: http://a.test\r\n", false),
        ("Origin: https://a.test.evil.test\r\n", false),
        ("Origin: https://A.test\r\n", false),
        ("Origin: https://a.test:443\r\n", false),
        ("Origin: null\r\n", false),
        ("Origin: https://a.test, https://c.test\r\n", false),
        ("Origin: https://a.test\r\nOrigin: https://a.test\r\n", false),
        ("", false),
    ] {
        let is_allowed = with_head("GET", fields, |head| policy.allowed_origin(head).is_some());
        assert_eq!(is_allowed, expected, "{fields}");
    }
    let any = CorsPolicy { origins: AllowedOrigins::Any, ..CorsPolicy::default() };
    let allowed = with_head("GET", "Origin: null\r\n", |head| any.allowed_origin(head).is_some());
    assert!(allowed);
}

#[test]
fn responses_name_the_origin_that_may_read_them() {
    let policy = CorsPolicy {
        exposed_headers: vec!["X-Total".to_owned()],
        allows_credentials: true,
        ..only(&["https://a.test"])
    };
    let allowed =
        with_head("GET", "Origin: https://a.test\r\n", |head| policy.response_fields(head));
    assert_eq!(
        allowed,
        "Access-Control-Allow-Origin: https://a.test\r\n\
         Access-Control-Allow-Credentials: true\r\nVary: Origin\r\n\
         Access-Control-Expose-Headers: X-Total\r\n"
    );
    // CORS fields that a script or another server has set are removed.
    let refused =
        with_head("GET", "Origin: https://b.test\r\n", |head| policy.response_fields(head));
    assert!(refused.starts_with("Vary: Origin\r\n"), "{refused}");
    assert!(refused.contains("Access-Control-Allow-Origin:\r\n"), "{refused}");
    assert!(refused.contains("Access-Control-Allow-Credentials:\r\n"), "{refused}");
    let any = CorsPolicy { origins: AllowedOrigins::Any, ..CorsPolicy::default() };
    let fields = with_head("GET", "Origin: https://b.test\r\n", |head| any.response_fields(head));
    assert!(fields.starts_with("Access-Control-Allow-Origin: *\r\n"), "{fields}");
    assert!(!fields.contains("Vary"), "{fields}");
}

#[test]
fn preflight_responses_list_the_allowed_methods_and_headers() {
    let policy = CorsPolicy {
        methods: vec!["PUT".to_owned(), "DELETE".to_owned()],
        headers: vec!["Content-Type".to_owned()],
        max_age_seconds: Some(600),
        ..only(&["https://a.test"])
    };
    let fields = "Origin: https://a.test\r\nAccess-Control-Request-Method: PUT\r\n";
    with_head("OPTIONS", fields, |head| {
        assert!(is_preflight(head));
        assert_eq!(
            policy.preflight_fields(head),
            "Access-Control-Allow-Origin: https://a.test\r\nVary: Origin\r\n\
             Access-Control-Allow-Methods: PUT, DELETE\r\n\
             Access-Control-Allow-Headers: Content-Type\r\nAccess-Control-Max-Age: 600\r\n"
        );
    });
    let other = "Origin: https://b.test\r\nAccess-Control-Request-Method: PUT\r\n";
    with_head("OPTIONS", other, |head| {
        assert!(is_preflight(head));
        assert_eq!(policy.preflight_fields(head), "Vary: Origin\r\n");
    });
    for (method, fields) in [
        ("GET", fields),
        ("OPTIONS", "Origin: https://a.test\r\n"),
        ("OPTIONS", "Access-Control-Request-Method: PUT\r\n"),
    ] {
        assert!(!with_head(method, fields, is_preflight), "{method} {fields}");
    }
}
