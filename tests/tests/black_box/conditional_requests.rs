//! Preconditions (RFC 9110 §13).

use pinion_tests::matrix::explained_ways;
use pinion_tests::request::Request;
use pinion_tests::server::Server;
use pinion_tests::temporary_folder::Folder;
use std::fs::File;
use std::time::{Duration, SystemTime};

/// The date of RFC 9110 §5.6.7, in its three forms, and its neighbours.
const MODIFIED_UNIX_SECONDS: u64 = 784_111_777;
const MODIFIED: [&str; 3] =
    ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"];
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

fn site() -> Folder {
    let folder = Folder::new("conditional");
    folder.write("page.html", "<p>a paragraph that says what it says</p>\n".repeat(50));
    folder.write("404.html", "not here");
    set_modified(&folder, "page.html", SystemTime::UNIX_EPOCH + seconds(MODIFIED_UNIX_SECONDS));
    folder
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn set_modified(folder: &Folder, path: &str, time: SystemTime) {
    let file = File::options().write(true).open(folder.join(path)).expect("the file");
    file.set_modified(time).expect("its time");
}

fn tag(server: &Server) -> String {
    server.get("/page").field("ETag").expect("an entity tag").to_owned()
}

/// Requests the page with these fields, by GET and by HEAD, and compares the status.
#[track_caller]
fn gives(server: &Server, status: u16, fields: &[(&str, &str)]) {
    let mut connection = server.client();
    for method in ["GET", "HEAD"] {
        let request = Request::new(method, "/page");
        let request =
            fields.iter().fold(request, |request, (name, value)| request.field(name, value));
        let response = connection.exchange(&request);
        assert_eq!(response.status, status, "{method} with {fields:?}: {response}");
    }
}

#[test]
fn if_none_match_is_a_weak_comparison_with_every_member() {
    // §13.1.2, §8.8.3.2.
    explained_ways(&site(), |server| {
        let tag = &tag(server);
        for value in [tag, "*", &format!("W/{tag}"), &format!("\"x\", W/\"y\" ,,{tag}")] {
            gives(server, 304, &[("If-None-Match", value)]);
        }
        for value in ["\"x\"", &tag.to_uppercase(), tag.trim_matches('"'), "W/\"x\", \"y,z\""] {
            gives(server, 200, &[("If-None-Match", value)]);
        }
        gives(server, 304, &[("If-None-Match", "\"x\""), ("If-None-Match", tag)]);
    });
}

#[test]
fn if_match_is_a_strong_comparison() {
    // §13.1.1.
    explained_ways(&site(), |server| {
        let tag = &tag(server);
        for value in [tag, "*", &format!("\"x\", {tag}")] {
            gives(server, 200, &[("If-Match", value)]);
        }
        for value in ["\"x\"", &format!("W/{tag}"), &format!("W/{tag}, \"x\"")] {
            gives(server, 412, &[("If-Match", value)]);
        }
    });
}

#[test]
fn if_modified_since_takes_every_form_of_date() {
    // §13.1.3, §5.6.7.
    explained_ways(&site(), |server| {
        assert_eq!(server.get("/page").field("Last-Modified"), Some(MODIFIED[0]));
        for date in MODIFIED.into_iter().chain([LATER]) {
            gives(server, 304, &[("If-Modified-Since", date)]);
        }
        for date in [EARLIER, "yesterday", "", "Sun, 06 Nov 1994 08:49:37", "784111777"] {
            gives(server, 200, &[("If-Modified-Since", date)]);
        }
    });
}

#[test]
fn if_unmodified_since_fails_when_it_was_modified() {
    // §13.1.4.
    explained_ways(&site(), |server| {
        for date in MODIFIED.into_iter().chain([LATER, "yesterday"]) {
            gives(server, 200, &[("If-Unmodified-Since", date)]);
        }
        gives(server, 412, &[("If-Unmodified-Since", EARLIER)]);
    });
}

#[test]
fn preconditions_have_an_order() {
    // §13.2.2: If-Match is evaluated before If-Unmodified-Since, and If-None-Match before
    // If-Modified-Since; the first condition that fails decides.
    explained_ways(&site(), |server| {
        let tag = &tag(server);
        gives(server, 200, &[("If-Match", tag), ("If-Unmodified-Since", EARLIER)]);
        gives(server, 200, &[("If-None-Match", "\"x\""), ("If-Modified-Since", LATER)]);
        gives(server, 304, &[("If-None-Match", tag), ("If-Modified-Since", EARLIER)]);
        gives(server, 412, &[("If-Match", "\"x\""), ("If-None-Match", tag)]);
        gives(server, 412, &[("If-Unmodified-Since", EARLIER), ("If-None-Match", tag)]);
        gives(server, 304, &[("If-Match", tag), ("If-None-Match", tag), ("Range", "bytes=0-1")]);
    });
}

#[test]
fn not_modified_has_the_fields_that_caches_need() {
    // §15.4.5: Content-Location, Date, ETag, Vary, Cache-Control as in the 200, and no content.
    explained_ways(&site(), |server| {
        for coding in ["identity", "gzip", "br"] {
            let request = Request::get("/page").field("Accept-Encoding", coding);
            let full = server.exchange(&request);
            let tag = full.field("ETag").expect("an entity tag");
            let short = server.exchange(&request.clone().field("If-None-Match", tag));
            assert_eq!(short.status, 304, "{short}");
            for name in ["Content-Location", "ETag", "Vary", "Cache-Control"] {
                assert!(full.field(name).is_some(), "{name} in {full}");
                assert_eq!(short.field(name), full.field(name), "{name} in {short}");
            }
            for name in ["Content-Type", "Content-Encoding", "Content-Range", "Transfer-Encoding"] {
                assert_eq!(short.field(name), None, "{short}");
            }
        }
    });
}

#[test]
fn each_coding_has_its_own_entity_tag() {
    // §8.8.3.3: representations with different codings need different tags.
    explained_ways(&site(), |server| {
        let of = |coding| {
            let response = server.exchange(&Request::get("/page").field("Accept-Encoding", coding));
            response.field("ETag").expect("an entity tag").to_owned()
        };
        let (plain, gzip) = (of("identity"), of("gzip"));
        gives(server, 304, &[("If-None-Match", &gzip), ("Accept-Encoding", "gzip")]);
        gives(server, 200, &[("If-None-Match", &plain), ("Accept-Encoding", "gzip")]);
        gives(server, 412, &[("If-Match", &plain), ("Accept-Encoding", "gzip")]);
    });
}

#[test]
fn preconditions_are_ignored_unless_the_response_would_be_2xx() {
    // §13.2.1: a server ignores them when the response without them would be neither 2xx nor 412.
    explained_ways(&site(), |server| {
        for (method, target, status) in
            [("GET", "/nothing", 404), ("DELETE", "/page", 405), ("GET", "/page/", 308)]
        {
            for (name, value) in [("If-Match", "\"x\""), ("If-None-Match", "*")] {
                let response = server.exchange(&Request::new(method, target).field(name, value));
                assert_eq!(response.status, status, "{method} {target} {name}: {response}");
            }
        }
    });
}

#[test]
fn a_file_from_the_future_has_no_last_modified() {
    // §8.8.2.1: no date later than that of the message.
    let site = site();
    set_modified(&site, "page.html", SystemTime::now() + seconds(86_400));
    explained_ways(&site, |server| {
        assert_eq!(server.get("/page").field("Last-Modified"), None);
        gives(server, 200, &[("If-Modified-Since", "Fri, 31 Dec 9999 23:59:59 GMT")]);
        let tag = &tag(server);
        gives(server, 304, &[("If-None-Match", tag)]);
    });
}
