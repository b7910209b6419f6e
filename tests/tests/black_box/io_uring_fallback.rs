//! `--io` where the kernel refuses io_uring, as in most containers and with
//! `kernel.io_uring_disabled`.

use pinion_tests::binary::{pinion, source_root};
use pinion_tests::external_programs::output;
use pinion_tests::request::Request;
use pinion_tests::seccomp::{IO_URING, refusing};
use pinion_tests::server::Start;
use rustix::io::Errno;

/// The error of the refused calls, the calls, and the message. Filters know all three calls of
/// io_uring or none; one that is older than io_uring returns that the call does not exist. Single
/// calls are refused for failures after the set-up.
const REFUSALS: [(Errno, &[u32], &str); 5] = [
    (Errno::PERM, &IO_URING, "setting rings up: Operation not permitted"),
    (Errno::NOSYS, &IO_URING, "setting rings up: Function not implemented"),
    (Errno::PERM, &[IO_URING[0]], "setting rings up: Operation not permitted"),
    (Errno::PERM, &[IO_URING[1]], "multishot receive: Operation not permitted"),
    (Errno::PERM, &[IO_URING[2]], "setting rings up: Operation not permitted"),
];

fn example() -> Start {
    Start::site(&source_root().join("examples/site"))
}

#[test]
fn auto_falls_back_to_epoll_with_a_note_if_io_uring_is_refused() {
    for (error, calls, reason) in REFUSALS {
        for flags in [&[][..], &["--io", "auto"]] {
            let server = example().flags(flags).under(refusing(error, calls)).start();
            let said = server.lines();
            let verdict =
                format!("pinion: note: io_uring is not available ({reason}), using epoll");
            assert_eq!(said[0], verdict);
            assert!(said.iter().any(|line| line.contains(" workers on epoll, ")), "{said:?}");
            let mut connection = server.connect();
            for _ in 0..3 {
                assert_eq!(connection.exchange(&Request::get("/")).status, 200);
            }
            server.stop();
        }
    }
}

#[test]
fn a_refused_uring_backend_is_one_line_and_exit_1() {
    for (error, calls, reason) in REFUSALS {
        let mut serve = refusing(error, calls);
        serve.arg(pinion()).args(["serve", "--io", "uring", "--listen", "127.0.0.1:0"]);
        let ended = output(serve.arg(source_root().join("examples/site")));
        let said = String::from_utf8(ended.stderr).expect("text");
        assert_eq!(ended.status.code(), Some(1), "{said}");
        let line = format!(
            "pinion: cannot start: io_uring is not available ({reason}); use --io auto or --io \
             epoll\n"
        );
        assert_eq!(said, line);
    }
}

#[test]
fn epoll_does_not_probe_io_uring_and_auto_uses_it_if_available() {
    let server = example().flags(&["--io", "epoll"]).under(refusing(Errno::PERM, &IO_URING));
    let server = server.start();
    let said = server.lines();
    let mentions_io_uring = |line: &String| line.contains("io_uring");
    assert!(said.iter().any(|line| line.contains(" workers on epoll, ")), "{said:?}");
    assert!(!said.iter().any(mentions_io_uring), "{said:?}");
    server.stop();
    for io in ["auto", "uring"] {
        let server = example().flags(&["--io", io]).start();
        let said = server.lines();
        assert!(said.iter().any(|line| line.contains(" workers on io_uring, ")), "{said:?}");
        server.stop();
    }
}
