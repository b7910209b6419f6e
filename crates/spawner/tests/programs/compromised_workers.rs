//! Compromised workers: nothing that they send affects others.

use std::os::fd::{AsFd, BorrowedFd};

use pinion_spawner::limits::{
    ARGUMENTS_MAX, ARGUMENTS_MAX_BYTES, RECORD_MAX_BYTES, RUNNING_MAX, TABLE_MAX_BYTES, WORKERS_MAX,
};
use pinion_spawner::reply::{Reason, SpawnerReply};
use pinion_spawner::spawner_handle::CgroupUse;
use pinion_spawner::start_table::ProgramKind;
use pinion_spawner::worker_connection::{RequestError, stream_sockets};
use pinion_spawner::worker_request::{SpawnerRequest, StartRequest};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg};

use crate::process_observer::{anonymous_kib, descriptors, wait_until};
use crate::test_server::{MOMENT, Server, Worker, log, row, shell, survivors};

/// Sends a record with any number of descriptors.
fn send_raw(worker: &Worker, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = vec![std::mem::MaybeUninit::uninit(); 16 + 16 + 4 * descriptors.len() + 16];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    let bytes = [std::io::IoSlice::new(bytes)];
    let sent = sendmsg(&worker.connection, &bytes, &mut ancillary, SendFlags::NOSIGNAL);
    sent.expect("sent");
}

pub(crate) fn malformed_requests_close_one_connection() {
    // A cgroup for the next program would be another descriptor.
    let mut server = Server::in_cgroups(vec![shell()], CgroupUse::Never);
    let mut other = Worker::connect(&server.spawner);
    let _stream = other.start(server.request(1, "sh", &["exec sleep 1000"]));
    other.started(1);
    let start = SpawnerRequest::Start(server.request(1, "sh", &["x"])).encode().expect("bytes");
    let stop = SpawnerRequest::Stop { id: 1 }.encode().expect("bytes");
    let mut records: Vec<Vec<u8>> = (1..start.len()).map(|at| start[..at].to_vec()).collect();
    records.extend((0..start.len()).map(|at| {
        let mut changed = start.clone();
        changed[at] ^= 0x80;
        changed
    }));
    records.push([&start[..], b"x"].concat());
    records.push([&stop[..], b"x"].concat());
    records.push(vec![0; RECORD_MAX_BYTES]);
    records.push(vec![1; RECORD_MAX_BYTES + 1]);
    let spawner = server.pid().as_raw_nonzero().get();
    let open = descriptors(spawner);
    let mut closed = 0;
    for record in records {
        let mut worker = Worker::connect(&server.spawner);
        let (_own, program) = stream_sockets().expect("sockets");
        send_raw(&worker, &record, &[program.as_fd()]);
        // A record that is still a request gets a reply, any other closes the connection.
        let is_closed = worker.try_reply().is_none();
        let expected = SpawnerRequest::decode(&record).is_none() || record.len() > RECORD_MAX_BYTES;
        assert_eq!(is_closed, expected, "{record:?}");
        closed += u32::from(is_closed);
    }
    assert!(closed > 20);
    assert!(log().contains("closed the connection of a worker, which has sent a malformed"));
    assert!(log().contains("closed the connection of a worker, which has sent a request that is"));
    // A stop with a descriptor is invalid.
    let mut worker = Worker::connect(&server.spawner);
    let (_own, program) = stream_sockets().expect("sockets");
    send_raw(&worker, &stop, &[program.as_fd()]);
    assert_eq!(worker.try_reply(), None);
    drop(worker);
    wait_until("all descriptors are closed", || descriptors(spawner) == open);
    server.assert_works();
    other.connection.stop(1).expect("sent");
    assert_eq!(other.reply(), SpawnerReply::Signaled { id: 1, signal: 15 });
}

pub(crate) fn wrong_requests_are_rejected() {
    let mut server = Server::with(vec![shell(), row("true", "/bin/true")]);
    let rejected = |server: &mut Server, id, reason| {
        assert_eq!(server.worker.reply(), SpawnerReply::Rejected { id, reason });
    };
    let mut request = server.request(1, "sh", &["true"]);
    request.start = 2;
    server.worker.start(request);
    rejected(&mut server, 1, Reason::UnknownStart);
    let mut request = server.request(2, "sh", &["true"]);
    request.generation = 77;
    server.worker.start(request);
    rejected(&mut server, 2, Reason::StaleTable);
    server.start(3, "true", &["argument"]);
    rejected(&mut server, 3, Reason::Arguments);
    server.worker.connection.stop(4).expect("sent");
    rejected(&mut server, 4, Reason::NotRunning);
    server.worker.connection.signal(5, 9).expect("sent");
    rejected(&mut server, 5, Reason::NotRunning);
    let _stream = server.shell(6, "exec sleep 1000");
    server.worker.started(6);
    server.shell(6, "exec sleep 1000");
    rejected(&mut server, 6, Reason::DuplicateId);
    // A worker cannot reach the program of another one.
    let mut other = Worker::connect(&server.spawner);
    other.connection.signal(6, 9).expect("sent");
    assert_eq!(other.reply(), SpawnerReply::Rejected { id: 6, reason: Reason::NotRunning });
    // The client itself refuses requests that the spawner would not accept.
    let (_own, program) = stream_sockets().expect("sockets");
    let long = "x".repeat(ARGUMENTS_MAX_BYTES + 1);
    let many = vec!["x"; ARGUMENTS_MAX + 1];
    for arguments in [&["nul\0"][..], &[&long], &many] {
        let request: StartRequest<'_> = server.request(7, "sh", arguments);
        let sent = server.worker.connection.start(request, program.as_fd(), None);
        assert_eq!(sent, Err(RequestError::Invalid));
    }
    assert_eq!(server.worker.connection.signal(6, 32), Err(RequestError::Invalid));
    server.assert_works();
}

pub(crate) fn surplus_descriptors_are_closed() {
    let mut server = Server::new();
    server.assert_works();
    let spawner = server.pid().as_raw_nonzero().get();
    let open = descriptors(spawner);
    let file = std::fs::File::open("/dev/null").expect("a file");
    let (_own, socket) = stream_sockets().expect("sockets");
    let (socket, file) = (socket.as_fd(), file.as_fd());
    let sets: [&[BorrowedFd<'_>]; 6] =
        [&[], &[file], &[socket, file], &[socket; 3], &[socket; 4], &[socket; 253]];
    for (id, descriptors) in (1..).zip(sets) {
        let request =
            SpawnerRequest::Start(server.request(id, "sh", &["true"])).encode().expect("bytes");
        send_raw(&server.worker, &request, descriptors);
        let rejected = SpawnerReply::Rejected { id, reason: Reason::Descriptors };
        assert_eq!(server.worker.reply(), rejected, "{}", descriptors.len());
    }
    assert_eq!(descriptors(spawner), open);
    server.assert_works();
}

pub(crate) fn a_worker_that_does_not_read_blocks_no_other() {
    let mut server = Server::new();
    let silent = Worker::connect(&server.spawner);
    let stop = SpawnerRequest::Stop { id: 1 }.encode().expect("bytes");
    // Each request has a reply. Eventually neither replies nor requests fit into the buffers.
    let mut sent = 0_u64;
    wait_until("the spawner reads no more of its requests", || {
        while send(&silent.connection, &stop, SendFlags::DONTWAIT).is_ok() {
            sent += 1;
        }
        server.assert_works();
        send(&silent.connection, &stop, SendFlags::DONTWAIT).is_err()
    });
    server.assert_works();
    // The worker gets all replies when it reads.
    let mut silent = silent;
    for number in 0..sent {
        let rejected = SpawnerReply::Rejected { id: 1, reason: Reason::NotRunning };
        assert_eq!(silent.reply(), rejected, "{number} of {sent}");
    }
}

pub(crate) fn connections_are_bounded() {
    let mut server = Server::new();
    let mut workers: Vec<Worker> =
        (1..WORKERS_MAX).map(|_| Worker::connect(&server.spawner)).collect();
    assert_eq!(Worker::connect(&server.spawner).try_reply(), None, "one too many");
    let last = workers.last_mut().expect("a worker");
    let _stream = last.start(server.request(1, "sh", &["exit 0"]));
    last.started(1);
    assert_eq!(last.reply(), SpawnerReply::Exited { id: 1, status: 0 });
    drop(workers);
    server.assert_works();
    let mut worker = Worker::connect(&server.spawner);
    worker.connection.stop(1).expect("sent");
    assert_eq!(worker.reply(), SpawnerReply::Rejected { id: 1, reason: Reason::NotRunning });
}

pub(crate) fn running_programs_are_bounded() {
    // As many programs as may run, and the largest tables.
    let mut table = vec![row("cat", "/bin/cat"), shell()];
    table.extend((0..4).map(|number| {
        let mut large = row(&format!("large{number}"), "/bin/true");
        large.arguments = vec!["x".repeat(TABLE_MAX_BYTES / 4 - 1024).into()];
        large
    }));
    let mut server = Server::with(table.clone());
    // An unchanged row is stored once for both tables.
    for number in 1..3 {
        table.iter_mut().for_each(|start| start.grace_ms += number);
        server.replace(table.clone());
    }
    let max = RUNNING_MAX as u64;
    let streams: Vec<_> = (0..max).map(|id| server.start(id, "cat", &[])).collect();
    server.worker.all_started(RUNNING_MAX);
    let _stream = server.start(max, "cat", &[]);
    let rejected = SpawnerReply::Rejected { id: max, reason: Reason::TooManyRunning };
    assert_eq!(server.worker.reply(), rejected);
    assert_eq!(survivors().len(), RUNNING_MAX);
    let kib = anonymous_kib(server.pid());
    println!("anonymous memory of the spawner: {kib} KiB");
    assert!(kib <= 1024, "{kib} KiB");
    drop(streams);
    assert_eq!(server.worker.ends(RUNNING_MAX).len(), RUNNING_MAX);
    std::thread::sleep(MOMENT);
    server.assert_works();
}

/// Workers cannot keep a supervised program from its next start.
pub(crate) fn supervised_programs_have_their_places() {
    let mut app = row("app", "/bin/sleep");
    (app.kind, app.arguments) = (ProgramKind::Supervised, vec!["1000".into()]);
    let mut server = Server::with(vec![row("cat", "/bin/cat"), app]);
    let max = RUNNING_MAX as u64;
    let _streams: Vec<_> = (1..max).map(|id| server.start(id, "cat", &[])).collect();
    server.worker.all_started(RUNNING_MAX - 1);
    let _stream = server.start(max, "cat", &[]);
    let rejected = |id| SpawnerReply::Rejected { id, reason: Reason::TooManyRunning };
    assert_eq!(server.worker.reply(), rejected(max));
    let app = server.request(max + 1, "app", &[]);
    server.worker.connection.start_supervised(app, &[]).expect("sent");
    server.worker.started(max + 1);
    let _stream = server.start(max + 2, "cat", &[]);
    assert_eq!(server.worker.reply(), rejected(max + 2));
}
