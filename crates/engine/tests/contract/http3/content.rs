//! Content of requests and answers.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use pinion_engine::app::Gone;

use crate::http3::{GET, Http3, POST, head, wait};
use crate::on_both;

#[test]
fn a_handler_hears_of_a_file_that_is_not_what_was_promised() {
    on_both(|server| {
        let client = Http3::connect(&server);
        for path in ["/shrinks", "/directory"] {
            let (mut sender, mut receiver) = client.open(&head(GET, path));
            sender.finish().expect("open");
            // H3_INTERNAL_ERROR.
            let ended = wait(receiver.read_to_end(1 << 23)).expect_err("a reset");
            assert!(ended.to_string().contains("258"), "{ended}");
            assert_eq!(server.gone.recv_timeout(Duration::from_secs(10)), Ok(Gone::Broken));
        }
        assert!(client.get("/hello").ends_with(b"hello world!\n"));
    });
}

/// Content that nobody reads fills the window of its stream, and of nobody else.
#[test]
fn what_is_not_read_holds_nobody_up() {
    on_both(|server| {
        let client = Http3::connect(&server);
        let (mut sender, _receiver) = client.open(&head(POST, "/forever"));
        // A frame of DATA that is larger than any window.
        let data = [&[0x0, 0x80, 0x10, 0, 0][..], &vec![b'x'; 1 << 20]].concat();
        let is_full = wait(poll_fn(|context| {
            Poll::Ready(pin!(sender.write_all(&data)).poll(context).is_pending())
        }));
        assert!(is_full, "nobody reads it");
        assert!(client.get("/hello").ends_with(b"hello world!\n"));
    });
}
