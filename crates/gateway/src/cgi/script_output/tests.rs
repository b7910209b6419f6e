use super::*;
use proptest::prelude::*;

/// Reads output in pieces and returns the response in words.
fn read(path: &str, output: &[u8], piece_bytes: usize, end: InputEnd) -> String {
    let mut reader = ScriptOutput::new(Method::Get, path.as_bytes());
    let mut storage = HeadStorage::new();
    let mut shown = String::new();
    let mut content = Vec::new();
    let mut show = |event: OutputEvent<'_>| match event {
        OutputEvent::Head { status, fields, content_length } => {
            shown.push_str(&format!("{status} {content_length:?}"));
            for field in fields.iter() {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                shown.push_str(&format!(" {}={}", text(field.name), text(field.value)));
            }
        }
        OutputEvent::Content(bytes) => content.extend_from_slice(bytes),
        OutputEvent::LocalRedirect(target) => {
            shown.push_str(&format!("to {}", String::from_utf8_lossy(target)));
        }
    };
    let mut fed = Ok(false);
    for piece in output.chunks(piece_bytes) {
        fed = reader.feed(piece, InputEnd::Open, &mut storage, &mut show);
        if fed != Ok(false) {
            break;
        }
    }
    if fed == Ok(false) {
        fed = reader.feed(b"", end, &mut storage, &mut show);
    }
    let fed = match fed {
        Ok(true) => "whole".to_owned(),
        Ok(false) => "open".to_owned(),
        Err(error) => error.to_string(),
    };
    format!("{shown}|{}|{fed}", String::from_utf8_lossy(&content))
}

/// The response to output, which is the same in whatever pieces it comes.
fn response(path: &str, output: &[u8]) -> String {
    let whole = read(path, output, output.len().max(1), InputEnd::Closed);
    for piece_bytes in 1..output.len() {
        assert_eq!(read(path, output, piece_bytes, InputEnd::Closed), whole, "{piece_bytes}");
    }
    whole
}

#[test]
fn documents_and_redirects_are_read() {
    let output = b"Content-Type: text/plain\nStatus: 404 Gone\n\nnothing";
    let expected = "404 None Content-Type=text/plain|nothing|whole";
    assert_eq!(response("a.cgi", output), expected);
    assert_eq!(response("a.cgi", b"Location: /b?c\n\nrest"), "to /b?c||whole");
    assert_eq!(response("a.cgi", b"Location: http://b/\n\n"), "302 None Location=http://b/||whole");
    assert_eq!(response("a.cgi", b""), "||the program wrote no response");
    assert_eq!(response("a.cgi", b"\x7fELF\0\0"), "||the response's head has a control character");
}

#[test]
fn scripts_with_an_nph_name_write_the_head() {
    let output = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\
        Content-Length: 2\r\nX: y\r\n\r\nok";
    let expected = "200 Some(2) Content-Length=2 X=y|ok|whole";
    assert_eq!(response("nph-a", output), expected);
    assert_eq!(response("dir/nph-a", output), expected);
    assert!(response("nph-dir/a", output).contains("malformed field line"));
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    assert!(response("nph-a", chunked).ends_with("|ok|whole"));
    assert_eq!(
        response("nph-a", b"HTTP/1.0 200 OK\r\n\r\nto the end"),
        "200 None|to the end|whole"
    );
    assert!(response("nph-a", b"Content-Type: text/plain\n\n").starts_with("||"));
    let switched = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
    assert!(response("nph-a", switched).starts_with("||"), "{}", response("nph-a", switched));
}

#[test]
fn truncated_output_is_never_a_complete_response() {
    let output = b"Content-Type: text/plain\n\nhalf";
    let broken = read("a.cgi", output, 100, InputEnd::Broken);
    assert!(broken.ends_with("|half|the output broke off within the response's content"));
    let broken = read("nph-a", b"HTTP/1.1 200 OK\r\n\r\nhalf", 100, InputEnd::Broken);
    assert!(!broken.ends_with("whole"), "{broken}");
}

proptest! {
    #[test]
    fn any_output_is_read_alike_in_any_pieces(
        text in "(Content-Type: a|Status: 200|Location: /x|X: y|HTTP/1.1 200|\r|\n|[a-z: ]){0,9}",
        piece_bytes in 1usize..10,
    ) {
        for path in ["a.cgi", "nph-a"] {
            let whole = read(path, text.as_bytes(), text.len().max(1), InputEnd::Closed);
            prop_assert_eq!(read(path, text.as_bytes(), piece_bytes, InputEnd::Closed), whole);
        }
    }
}
