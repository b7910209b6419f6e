use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use rustix::fs::Mode;

use super::*;

/// Waits once, and returns the completions.
fn completions_of(poller: &mut Epoll) -> Vec<Completion<OwnedFd>> {
    poller.wait(Some(10_000)).expect("a wait");
    std::iter::from_fn(|| poller.next()).collect()
}

#[test]
fn a_socket_that_cannot_be_watched_has_failed() {
    let mut poller = Epoll::new(Vec::new()).expect("epoll");
    let peers: Vec<_> = (0..2)
        .map(|slot| {
            let (near, far) = UnixStream::pair().expect("a pair");
            poller.attach(slot, near.into()).expect("room for two");
            far
        })
        .collect();
    for slot in 0..2 {
        let fd = poller.sockets[slot].fd.as_ref().expect("attached");
        epoll::delete(&poller.poll, fd).expect("it is watched");
    }
    poller.receive(0, false);
    poller.await_writable(1);
    assert!(poller.close(1, false), "nobody has to hear of a connection that is closed");
    let completions = completions_of(&mut poller);
    let [Completion::Failed { slot: 0, error: Errno::NOENT }] = &*completions else {
        panic!("{completions:?}");
    };
    poller.wait(Some(0)).expect("a wait");
    assert!(poller.next().is_none(), "it is reported once");
    drop(peers);
}

#[test]
fn a_listener_that_cannot_be_watched_is_a_failure_to_accept() {
    let none = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, Mode::empty());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let at = listener.local_addr().expect("its address");
    listener.set_nonblocking(true).expect("set");
    // A file that is always ready cannot be watched.
    let listeners = vec![Arc::new(listener.into()), Arc::new(none.expect("a device"))];
    let mut poller = Epoll::new(listeners).expect("epoll");
    let _client = TcpStream::connect(at).expect("a connection");
    poller.accept(true);
    let completions = completions_of(&mut poller);
    let failed = |completion: &Completion<_>| {
        matches!(completion, Completion::ListenerLost { error: Errno::PERM })
    };
    assert_eq!(
        completions.iter().filter(|completion| failed(completion)).count(),
        1,
        "{completions:?}"
    );
}

/// epoll(7) reports EPOLLHUP for a socket whose two directions have ended, even while no data is
/// requested. Such a socket is not broken, and the next read still delivers its data.
#[test]
fn a_socket_whose_sides_have_ended_is_not_broken() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let at = listener.local_addr().expect("its address");
    let near = TcpStream::connect(at).expect("a connection");
    near.set_nonblocking(true).expect("set");
    let (mut far, _) = listener.accept().expect("the other end");
    let mut poller = Epoll::new(Vec::new()).expect("epoll");
    poller.attach(0, near.into()).expect("room");
    poller.receive(0, false);
    poller.finish(0);
    far.write_all(b"content").expect("sent");
    far.shutdown(std::net::Shutdown::Write).expect("finished");
    // It takes a moment until both ends have arrived. No completion is reported, and epoll does not
    // report the socket again and again.
    poller.wait(Some(1000)).expect("a wait");
    assert!(poller.next().is_none());
    assert!(poller.sockets[0].parked);
    poller.wait(Some(0)).expect("a wait");
    assert!(poller.next().is_none());
    poller.receive(0, true);
    let first = completions_of(&mut poller);
    assert!(matches!(&*first, [Completion::Received { slot: 0, lent }] if lent.bytes == 7));
    let second = completions_of(&mut poller);
    assert!(matches!(&*second, [Completion::Ended { slot: 0 }]), "{second:?}");
}
