//! Tasks of client libraries: their order, cancellation, back-pressure, panics, and their thread.

mod simulated_worker;

use std::cell::RefCell;
use std::future::pending;
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::thread;

use pinion_jobs::async_thread::{
    TaskError, TaskEvent, TaskGuard, TaskLimits, TaskMessage, TaskOutput, TaskReceiver, TaskResult,
    TaskThread,
};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::sync::oneshot;

/// A result of a given size with a number.
type Piece = Vec<u8>;

fn piece(number: usize, bytes: usize) -> Piece {
    let mut piece = number.to_be_bytes().to_vec();
    piece.resize(piece.len().max(bytes), 0);
    piece
}

fn number(piece: &[u8]) -> usize {
    usize::from_be_bytes(*piece.first_chunk().expect("a number"))
}

/// Returns a receiver that hands the events over, with their results still counted.
fn handed_over<T: Send + 'static>() -> (TaskReceiver<T>, Receiver<TaskEvent<T>>) {
    let (sender, events) = channel();
    // The test may have dropped its half.
    let callback = move |event| drop(sender.send(event));
    (TaskReceiver::Callback(Box::new(callback)), events)
}

fn result<T: std::fmt::Debug>(event: Result<TaskEvent<T>, RecvError>) -> TaskResult<T> {
    match event {
        Ok(TaskEvent::Result(result)) => result,
        other => panic!("{other:?}"),
    }
}

fn end<T: std::fmt::Debug>(event: Result<TaskEvent<T>, RecvError>) -> Result<(), String> {
    match event {
        Ok(TaskEvent::End(end)) => end,
        other => panic!("{other:?}"),
    }
}

/// Starts a task that sends numbered pieces endlessly, each when the last one was taken.
fn endless(
    tasks: &TaskThread,
    bytes: usize,
    made: Sender<usize>,
) -> (TaskGuard, Receiver<TaskEvent<Piece>>) {
    let (receiver, events) = handed_over();
    let work = move |mut output: TaskOutput<Piece>| async move {
        for number in 0.. {
            // The test may have dropped its half.
            let _ = made.send(number);
            output.send(piece(number, bytes)).await;
        }
        Ok(())
    };
    (tasks.spawn(work, receiver).expect("a task"), events)
}

/// Waits until all tasks that could run have run until they wait: the runtime is fair, and a task
/// that never waits has its turn ended after some hundred results.
fn let_all_run(tasks: &TaskThread) {
    let (receiver, events) = handed_over::<Piece>();
    let work = |_| async {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    let _guard = tasks.spawn(work, receiver).expect("a task");
    assert_eq!(end(events.recv()), Ok(()));
}

/// Returns the bytes that a piece of this size takes of its windows.
fn counted(bytes: usize) -> usize {
    size_of::<TaskMessage<Piece>>() + size_of::<Piece>() + bytes
}

/// Returns limits with space for this many pieces of this size, of one task and of all.
fn room_for(of_task: usize, of_all: usize, bytes: usize) -> TaskLimits {
    let of = |pieces: usize| u32::try_from(pieces * counted(bytes)).expect("32 bits");
    TaskLimits { task_results_bytes: of(of_task), results_bytes: of(of_all), tasks: 8 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// For any tasks that run at the same time, and any times at which their results are taken,
    /// each has all of its results in their order, and its end after them.
    #[test]
    fn results_arrive_in_order_and_the_end_arrives_last(
        tasks in vec((0_usize..40, 0_usize..300, any::<bool>()), 1..8),
        window in 1_u32..2000,
        taken_at_once in 1_usize..10,
    ) {
        let limits = TaskLimits { task_results_bytes: window, results_bytes: 3000, tasks: 8 };
        let thread = TaskThread::new(limits);
        let mut running = Vec::new();
        for (results, bytes, fails) in &tasks {
            let (results, bytes, fails) = (*results, *bytes, *fails);
            let (receiver, events) = handed_over();
            let work = move |mut output: TaskOutput<Piece>| async move {
                for number in 0..results {
                    output.send(piece(number, bytes)).await;
                }
                if fails { Err("refused".to_owned()) } else { Ok(()) }
            };
            running.push((thread.spawn(work, receiver).expect("a task"), events));
        }
        let mut got: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
        let mut ends = vec![None; tasks.len()];
        while ends.contains(&None) {
            for (task, (_, events)) in running.iter().enumerate() {
                for _ in 0..taken_at_once {
                    match events.try_recv() {
                        Ok(TaskEvent::Result(result)) => {
                            prop_assert_eq!(&ends[task], &None);
                            got[task].push(number(&result.value));
                        }
                        Ok(TaskEvent::End(end)) => ends[task] = Some(end),
                        Err(_) => thread::yield_now(),
                    }
                }
            }
        }
        for (task, (results, _, fails)) in tasks.iter().enumerate() {
            prop_assert_eq!(&got[task], &(0..*results).collect::<Vec<_>>());
            let end = if *fails { Err("refused".to_owned()) } else { Ok(()) };
            prop_assert_eq!(ends[task].as_ref(), Some(&end));
        }
    }
}

#[test]
fn an_endless_producer_waits_for_its_receiver() {
    let tasks = TaskThread::new(room_for(4, 100, 1000));
    let (made, made_numbers) = channel();
    let (_guard, events) = endless(&tasks, 1000, made);
    let mut held = Vec::from_iter((0..4).map(|_| result(events.recv())));
    let_all_run(&tasks);
    assert!(events.try_recv().is_err(), "the window is full");
    assert_eq!(made_numbers.try_iter().count(), 5, "the fifth waits to be sent");
    for taken in 4..100 {
        drop(held.remove(0));
        held.push(result(events.recv()));
        let_all_run(&tasks);
        assert!(events.try_recv().is_err(), "one for one");
        assert_eq!(number(&held[3].value), taken);
        assert_eq!(made_numbers.try_iter().collect::<Vec<_>>(), [taken + 1]);
    }
}

/// Tasks share the second window, in the order in which they wait for it. Those of another library
/// have windows of their own.
#[test]
fn all_tasks_of_a_library_share_a_window() {
    let tasks = TaskThread::new(room_for(4, 6, 1000));
    let (made, _) = channel();
    let started: Vec<_> = (0..4).map(|_| endless(&tasks, 1000, made.clone())).collect();
    let_all_run(&tasks);
    let held: Vec<Vec<_>> = started.iter().map(|(_, events)| events.try_iter().collect()).collect();
    assert_eq!(held.iter().map(Vec::len).sum::<usize>(), 6);
    let other = tasks.with_limits(room_for(4, 4, 1000));
    let (_guard, events) = endless(&other, 1000, made);
    let _taken = (0..4).map(|_| result(events.recv())).collect::<Vec<_>>();
    drop(held);
    let_all_run(&tasks);
    let more = started.iter().map(|(_, events)| events.try_iter().count()).sum::<usize>();
    assert!(more >= 6, "{more} results when the others are dropped");
}

#[test]
fn a_result_larger_than_the_window_is_sent_alone() {
    let tasks = TaskThread::new(room_for(2, 3, 10));
    let (made, _) = channel();
    let (_guard, events) = endless(&tasks, 100_000, made);
    for expected in 0..10 {
        let result = result(events.recv());
        assert_eq!(number(&result.value), expected);
        let_all_run(&tasks);
        assert!(events.try_recv().is_err(), "nothing beside it");
    }
}

/// The worker of a task gets messages with its number, and its results count until it drops them.
#[test]
fn a_worker_gets_the_events_of_its_tasks_in_its_inbox() {
    let mut worker = simulated_worker::InboxWorker::new();
    let tasks = TaskThread::new(room_for(2, 100, 1000));
    let start = |of_worker: u64| {
        let work = move |mut output: TaskOutput<Piece>| async move {
            for number in 0..20 {
                output.send(piece(number, 1000)).await;
            }
            Err(format!("the end of {of_worker}"))
        };
        tasks.spawn(work, TaskReceiver::Worker(worker.owner(of_worker))).expect("a task")
    };
    let _guards = [start(7), start(9)];
    let mut numbers: [Vec<usize>; 2] = Default::default();
    let mut ends = 0;
    while ends < 2 {
        let messages = worker.take::<TaskMessage<Piece>>();
        for of_worker in [7, 9] {
            let held = messages.iter().filter(|message| {
                message.number == of_worker && matches!(message.event, TaskEvent::Result(_))
            });
            assert!(held.count() <= 2, "no more than the window");
        }
        for TaskMessage { number: of_worker, event } in messages {
            match event {
                TaskEvent::Result(result) => {
                    numbers[usize::from(of_worker == 9)].push(number(&result.value));
                }
                TaskEvent::End(end) => {
                    assert_eq!(end, Err(format!("the end of {of_worker}")));
                    ends += 1;
                }
            }
        }
    }
    assert_eq!(numbers, [(0..20).collect::<Vec<_>>(), (0..20).collect()]);
}

/// A worker whose inbox is full gets the events when it has read the inbox.
#[test]
fn a_full_inbox_loses_no_event() {
    let mut worker = simulated_worker::InboxWorker::new();
    worker.fill_inbox();
    let tasks = TaskThread::default();
    let (sent, is_sent) = channel();
    let work = move |mut output: TaskOutput<Piece>| async move {
        sent.send(()).expect("a receiver");
        output.send(piece(3, 0)).await;
        Ok(())
    };
    let _guard = tasks.spawn(work, TaskReceiver::Worker(worker.owner(1))).expect("a task");
    is_sent.recv().expect("the task runs");
    let_all_run(&tasks);
    let mut messages = Vec::new();
    while messages.len() < 2 {
        messages.extend(worker.take::<TaskMessage<Piece>>());
    }
    assert!(matches!(&messages[0].event, TaskEvent::Result(result) if number(&result.value) == 3));
    assert!(matches!(messages[1].event, TaskEvent::End(Ok(()))));
}

/// Sends when it is dropped.
struct SendOnDrop(Sender<&'static str>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        // The test may have dropped its half.
        let _ = self.0.send("dropped");
    }
}

/// Starts a task that blocks the thread until the returned sender is used or dropped.
fn hold_up(tasks: &TaskThread) -> (TaskGuard, Sender<()>) {
    let (release, released) = channel();
    let (running, is_running) = channel();
    let work = move |_: TaskOutput<Piece>| async move {
        running.send(()).expect("a receiver");
        let _ = released.recv();
        Ok(())
    };
    let guard = tasks.spawn(work, handed_over().0).expect("a task");
    is_running.recv().expect("it runs");
    (guard, release)
}

#[test]
fn a_task_that_is_cancelled_before_its_start_never_runs() {
    let tasks = TaskThread::default();
    let (_first, release) = hold_up(&tasks);
    let (log, lines) = channel();
    let (owned, ran) = (SendOnDrop(log.clone()), log);
    let (receiver, events) = handed_over();
    let work = move |_: TaskOutput<Piece>| async move {
        let _owned = owned;
        ran.send("ran").expect("a receiver");
        Ok(())
    };
    drop(tasks.spawn(work, receiver).expect("a task"));
    drop(release);
    assert_eq!(lines.iter().collect::<Vec<_>>(), ["dropped"]);
    assert!(events.recv().is_err(), "no event, and the receiver is dropped");
}

#[test]
fn a_task_that_is_cancelled_in_the_middle_has_no_further_result_and_no_end() {
    let tasks = TaskThread::default();
    let (log, lines) = channel();
    let owned = SendOnDrop(log);
    let (receiver, events) = handed_over();
    let work = move |mut output: TaskOutput<Piece>| async move {
        let _owned = owned;
        output.send(piece(0, 0)).await;
        pending::<()>().await;
        output.send(piece(1, 0)).await;
        Ok(())
    };
    let guard = tasks.spawn(work, receiver).expect("a task");
    assert_eq!(number(&result(events.recv()).value), 0);
    assert!(lines.try_recv().is_err(), "it runs");
    drop(guard);
    assert_eq!(lines.iter().collect::<Vec<_>>(), ["dropped"]);
    assert!(events.recv().is_err());
}

/// A task that waits for its windows is cancelled as well, and gives its results back.
#[test]
fn a_task_that_waits_to_send_can_be_cancelled() {
    let tasks = TaskThread::new(room_for(2, 2, 1000));
    let (made, _) = channel();
    let (guard, events) = endless(&tasks, 1000, made.clone());
    let_all_run(&tasks);
    drop(guard);
    assert_eq!(events.iter().count(), 2, "what was in its window, and no end");
    let (_guard, events) = endless(&tasks, 1000, made);
    let _both = [result(events.recv()), result(events.recv())];
}

#[test]
fn the_guard_of_a_task_that_has_ended_does_nothing() {
    let tasks = TaskThread::default();
    for _ in 0..3 {
        let (receiver, events) = handed_over();
        let work = |mut output: TaskOutput<Piece>| async move {
            output.send(piece(5, 0)).await;
            Ok(())
        };
        let guard = tasks.spawn(work, receiver).expect("a task");
        assert_eq!(number(&result(events.recv()).value), 5);
        assert_eq!(end(events.recv()), Ok(()));
        assert!(events.recv().is_err(), "nothing behind the end");
        drop(guard);
    }
}

#[test]
fn a_panic_ends_only_its_task_and_is_its_result() {
    let tasks = TaskThread::default();
    let (continue_it, continued) = oneshot::channel();
    let (receiver, other) = handed_over();
    let work = |mut output: TaskOutput<Piece>| async move {
        continued.await.expect("a sender");
        output.send(piece(1, 0)).await;
        Ok(())
    };
    let _other = tasks.spawn(work, receiver).expect("a task");

    let (receiver, events) = handed_over();
    let work = |mut output: TaskOutput<Piece>| async move {
        output.send(piece(0, 0)).await;
        panic!("on purpose");
    };
    let _guard = tasks.spawn(work, receiver).expect("a task");
    assert_eq!(number(&result(events.recv()).value), 0);
    let inside = "internal error, see the log of the server";
    assert_eq!(end(events.recv()), Err(inside.to_owned()));
    assert!(events.recv().is_err());

    // One task panics before its first `await`, and the callback of another one panics.
    let (receiver, events) = handed_over();
    let work =
        |_: TaskOutput<Piece>| -> std::future::Ready<Result<(), String>> { panic!("on purpose") };
    let _guard = tasks.spawn(work, receiver).expect("a task");
    assert_eq!(end(events.recv()), Err(inside.to_owned()));
    let (sender, ends) = channel();
    let callback = move |event| match event {
        TaskEvent::Result(_) => panic!("on purpose"),
        TaskEvent::End(end) => sender.send(end).expect("a receiver"),
    };
    let work = |mut output: TaskOutput<Piece>| async move {
        output.send(piece(0, 0)).await;
        Ok(())
    };
    let _guard = tasks.spawn(work, TaskReceiver::Callback(Box::new(callback))).expect("a task");
    assert_eq!(ends.recv().expect("an end"), Err(inside.to_owned()));

    continue_it.send(()).expect("it waits");
    assert_eq!(number(&result(other.recv()).value), 1);
    assert_eq!(end(other.recv()), Ok(()));
}

#[test]
fn too_many_tasks_are_refused() {
    let tasks = TaskThread::new(TaskLimits { tasks: 2, ..TaskLimits::default() });
    let wait = || {
        let work = |_: TaskOutput<Piece>| async {
            pending::<()>().await;
            Ok(())
        };
        let (receiver, events) = handed_over();
        (tasks.spawn(work, receiver), events)
    };
    let (first, first_events) = wait();
    let (second, _) = wait();
    let (third, third_events) = wait();
    assert_eq!(third.expect_err("the third"), TaskError::TooMany(2));
    assert!(third_events.recv().is_err(), "its receiver is dropped");
    assert!(
        tasks
            .with_limits(TaskLimits::default())
            .spawn(|_: TaskOutput<Piece>| async { Ok(()) }, handed_over().0,)
            .is_ok(),
        "another library has limits of its own"
    );
    drop(first.expect("a task"));
    // The receiver is dropped with the task.
    assert!(first_events.recv().is_err());
    let_all_run(&tasks.with_limits(TaskLimits::default()));
    let (fourth, _) = wait();
    assert!(fourth.is_ok() && second.is_ok());
}

thread_local! {
    /// Is dropped when the thread ends.
    static AT_END: RefCell<Option<SendOnDrop>> = const { RefCell::new(None) };
}

/// The thread ends with the last handle. Tasks that still run are dropped.
#[test]
fn the_thread_ends_with_the_last_handle() {
    let tasks = TaskThread::default();
    let other = tasks.with_limits(TaskLimits::default()).clone();
    let (task, task_end) = channel();
    let (thread, thread_end) = channel();
    let (receiver, events) = handed_over();
    let work = move |mut output: TaskOutput<Piece>| async move {
        let _owned = SendOnDrop(task);
        AT_END.set(Some(SendOnDrop(thread)));
        let name = thread::current().name().unwrap_or_default().as_bytes().to_vec();
        output.send(name).await;
        pending::<()>().await;
        Ok(())
    };
    let guard = tasks.spawn(work, receiver).expect("a task");
    assert_eq!(result(events.recv()).value, b"async-tasks");
    drop(tasks);
    let_all_run(&other);
    assert!(task_end.try_recv().is_err() && thread_end.try_recv().is_err(), "a handle is left");
    drop(other);
    assert_eq!(task_end.recv(), Ok("dropped"));
    assert_eq!(thread_end.recv(), Ok("dropped"));
    drop(guard);
}
