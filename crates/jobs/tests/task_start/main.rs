//! The start of the thread for tasks. This program has one test, because it counts the threads of
//! its process and sets limits of it.

use std::fs;
use std::sync::mpsc::channel;

use pinion_jobs::async_thread::{TaskError, TaskEvent, TaskOutput, TaskReceiver, TaskThread};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Sets the soft limit of a resource to this value while `act` runs.
fn with_limit<R>(resource: Resource, current: u64, act: impl FnOnce() -> R) -> R {
    let before = getrlimit(resource);
    let low = Rlimit { current: Some(current), maximum: before.maximum };
    setrlimit(resource, low).expect("a lower limit");
    let result = act();
    setrlimit(resource, before).expect("the limit before");
    result
}

/// Returns the size of the address space in bytes.
fn address_space_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: u64 = statm.split(' ').next().expect("a size").parse().expect("a number");
    pages * rustix::param::page_size() as u64
}

/// Returns the names of the threads of this process.
fn thread_names() -> Vec<String> {
    let folders = fs::read_dir("/proc/self/task").expect("threads");
    let name = |folder: fs::DirEntry| fs::read_to_string(folder.path().join("comm")).ok();
    let names = folders.filter_map(|folder| name(folder.ok()?));
    names.map(|name| name.trim_end().to_owned()).collect()
}

#[test]
fn a_thread_that_cannot_start_is_an_error_and_the_next_task_tries_again() {
    let is_there = || thread_names().iter().any(|name| name == "async-tasks");
    let tasks = TaskThread::default();
    assert!(!is_there(), "no thread before the first task");
    let (sender, receiver) = channel();
    let spawn = || {
        let sender = sender.clone();
        let callback = move |event| sender.send(event).expect("a receiver");
        let work = |mut output: TaskOutput<Vec<u8>>| async move {
            output.send(b"done".to_vec()).await;
            Ok(())
        };
        tasks.spawn(work, TaskReceiver::Callback(Box::new(callback)))
    };
    // The runtime needs descriptors.
    let refused = with_limit(Resource::Nofile, 0, spawn).expect_err("no descriptor");
    assert!(matches!(&refused, TaskError::Start(_)), "{refused}");
    // Its stack has 2 MiB, and the runtime less than one.
    let room = address_space_bytes() + (1 << 20);
    let refused = with_limit(Resource::As, room, spawn).expect_err("no memory for a stack");
    assert!(matches!(&refused, TaskError::Start(_)), "{refused}");
    assert!(refused.to_string().starts_with("the thread for tasks cannot be started: "));
    assert!(!is_there());
    let _guard = spawn().expect("a thread");
    let value = match receiver.recv() {
        Ok(TaskEvent::Result(result)) => result.value,
        other => panic!("{other:?}"),
    };
    assert_eq!(value, b"done");
    assert!(is_there());
}
