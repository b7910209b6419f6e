//! The events of handlers when the server stops.

use std::io::{Read, Write};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use crate::on_both;
use crate::test_server::{connect, read_response};

#[test]
fn endless_responses_can_end_properly_during_a_drain() {
    on_both(|server| {
        let mut old = server.connect();
        old.write_all(b"GET /endless HTTP/1.0\r\n\r\n").unwrap();
        let mut stream = server.connect();
        stream.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let _begun = (server.next_waiting(), server.next_waiting());
        let mut raw = connect(server.raw);
        raw.write_all(b"first").unwrap();
        raw.read_exact(&mut [0; 5]).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        server.control.drain();
        for (stream, end) in
            [(&mut old, "\ntick\nbye\n"), (&mut stream, "tick\n\r\n4\r\nbye\n\r\n0\r\n\r\n")]
        {
            let mut response = String::new();
            stream.read_to_string(&mut response).expect("an orderly end");
            assert!(response.ends_with(end) && response.matches("bye").count() == 1, "{response}");
        }
        let mut rest = String::new();
        raw.read_to_string(&mut rest).expect("an orderly end");
        assert_eq!(rest, "bye\n");
        assert_eq!(server.gone.try_recv(), Err(TryRecvError::Empty), "they ended by themselves");
    });
}

#[test]
fn requests_that_begin_during_the_stop_get_a_response() {
    on_both(|server| {
        let get = b"GET /stopping HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut stream = server.connect();
        stream.write_all(get).unwrap();
        assert_eq!(read_response(&mut stream).1, b"serving\n");
        // A new connection has some time to send its request.
        let mut newcomer = server.connect();
        while server.control.connections() < 2 {
            std::thread::yield_now();
        }
        server.control.drain();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "drained");
        newcomer.write_all(get).unwrap();
        let (head, body) = read_response(&mut newcomer);
        assert_eq!(body, b"stopping\n");
        assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
    });
}
