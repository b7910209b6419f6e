//! The shortest cases of those that the seeds draw, and cases that they do not draw.

use super::simulated_client::bytes;
use super::worker::{PAGES, STORE, Simulation, store};
use crate::server::store::waiting_pages::WAIT_MAX_MS;
use pinion_engine::backend::sim::{Client, Connect, Faults, Read};
use pinion_engine::exchange_address::Address;
use pinion_engine::limits::INBOX_MAX_MESSAGES;
use pinion_store::ReplyOutput;
use pinion_store::client::Client as StoreClient;
use pinion_store::job::Job;
use pinion_store::store::Store;

/// Passes after which something that is waited for has to have come.
const PASSES_MAX: usize = 100_000;

impl<const READINESS: bool> Simulation<'_, READINESS> {
    fn connect(&self, listener: usize, window_bytes: usize) -> Client {
        self.network.connect(Connect { listener, window_bytes, local: false, protected: true })
    }

    fn send(&self, client: Client, text: &str) {
        let bytes = text.as_bytes();
        assert_eq!(self.network.send(client, bytes), bytes.len(), "the kernel has space");
    }

    /// Lets so many milliseconds pass.
    fn rest(&mut self, ms: u64) {
        let until_ms = self.network.now().monotonic_ms + ms;
        loop {
            let next_ms = self.run_jobs().unwrap_or(until_ms).min(until_ms);
            if self.network.now().monotonic_ms >= until_ms {
                return;
            }
            self.pass(Some(next_ms)).expect("time passes");
        }
    }

    /// Reads as many bytes as are expected, and no more.
    #[track_caller]
    fn expect(&mut self, client: Client, expected: &str) {
        let mut received = Vec::new();
        for _ in 0..PASSES_MAX {
            let missing = expected.len() - received.len();
            if missing == 0 {
                break;
            }
            let read = self.network.read(client, missing, &mut received);
            let now_ms = self.network.now().monotonic_ms;
            let next_ms = self.run_jobs();
            let next_ms = if matches!(read, Read::Bytes(_)) { Some(now_ms) } else { next_ms };
            self.pass(next_ms).expect("something comes");
        }
        assert!(received == expected.as_bytes(), "{} bytes", received.len());
    }

    /// Reads the content of a response, which ends the connection.
    #[track_caller]
    fn expect_page(&mut self, client: Client, content: &str) {
        let mut received = Vec::new();
        for _ in 0..PASSES_MAX {
            let read = self.network.read(client, usize::MAX, &mut received);
            if received.ends_with(content.as_bytes()) || matches!(read, Read::Ended | Read::Reset) {
                break;
            }
            let next_ms = self.run_jobs();
            self.pass(next_ms).expect("something comes");
        }
        let text = String::from_utf8_lossy(&received);
        assert!(text.ends_with(&format!("\r\n\r\n{content}")), "{text:?}");
        self.network.leave(client);
    }

    /// Lets all clients that have left go.
    fn finish(&mut self) {
        for _ in 0..PASSES_MAX {
            self.run_jobs();
            if self.is_quiet() {
                return self.check_empty().expect("nothing is left");
            }
            self.pass(Some(self.network.now().monotonic_ms + 1)).expect("time passes");
        }
        panic!("something is left: {:?}", self.check_empty());
    }
}

/// Executes commands for a client that is not simulated.
fn say(store: &Store, line: &str) -> String {
    let mut client = StoreClient::new(store, "test", 0);
    let mut output = ReplyOutput::default();
    client.receive(store, format!("{line}\r\n").as_bytes(), 0, &mut output);
    client.run_jobs(store, 0, &mut output);
    client.disconnect(store);
    String::from_utf8(bytes(&output)).expect("text")
}

/// Returns a job that locks the shard of a key, of a client that has left.
fn job(store: &Store, key: &str) -> Job {
    let mut client = StoreClient::new(store, "test", 0);
    client.receive(
        store,
        format!("SORT {key} BY w:*\r\n").as_bytes(),
        0,
        &mut ReplyOutput::default(),
    );
    let job = client.take_job().expect("a command that locks all shards is a job here");
    client.disconnect(store);
    job
}

/// Bytes of a reply of which a few are more than a connection may have in its queue.
const LONG_BYTES: usize = 100_000;

fn a_held_job_waits<const READINESS: bool>(leaves: bool) {
    let store = store(0);
    say(&store, &format!("SETRANGE long {} x", LONG_BYTES - 1));
    let mut simulation = Simulation::<READINESS>::new(&store, 1, Faults::default());
    let client = simulation.connect(STORE, 1000);
    const PAIRS: usize = 1000;
    simulation.send(client, &"INCR n\r\nGET long\r\n".repeat(PAIRS));
    simulation.rest(5_000);
    assert!(simulation.runs_no_job(), "it has its replies to read first");
    // It has read nothing, so a few replies are in its queue and nothing more was executed.
    let executed = say(&store, "GET n");
    let executed: usize = executed.lines().nth(1).and_then(|it| it.parse().ok()).expect("a number");
    assert!((2..=5).contains(&executed), "{executed} were executed");
    simulation.rest(5_000);
    assert_eq!(say(&store, "STRLEN long"), format!(":{LONG_BYTES}\r\n"));
    assert!(say(&store, "GET n").ends_with(&format!("\r\n{executed}\r\n")));
    if leaves {
        simulation.network.reset(client);
    } else {
        let value = "\0".repeat(LONG_BYTES - 1) + "x";
        let replies =
            (1..=PAIRS).map(|number| format!(":{number}\r\n${LONG_BYTES}\r\n{value}\r\n"));
        for reply in replies {
            simulation.expect(client, &reply);
        }
        simulation.network.leave(client);
    }
    simulation.finish();
}

#[test]
fn a_client_that_does_not_read_has_no_job_run_until_it_does() {
    a_held_job_waits::<true>(false);
    a_held_job_waits::<false>(false);
}

#[test]
fn a_client_that_does_not_read_and_leaves_gives_back_its_job() {
    a_held_job_waits::<true>(true);
    a_held_job_waits::<false>(true);
}

/// A worker with as many messages as it may have hears of the kill later.
#[test]
fn a_kill_is_not_lost_when_too_many_messages_wait() {
    let store = store(4096);
    let mut simulation = Simulation::<true>::new(&store, 1, Faults::default());
    let client = simulation.connect(STORE, 1000);
    simulation.send(client, "CLIENT ID\r\n");
    simulation.expect(client, ":1\r\n");
    let poster = simulation.worker.app().poster.clone();
    let nowhere = Address { worker: 0, slot: 1000, generation: 1, exchange: 1 };
    for _ in 0..INBOX_MAX_MESSAGES {
        poster.post(nowhere, Box::new(())).expect("space for the message");
    }
    assert_eq!(say(&store, "CLIENT KILL ID 1"), ":1\r\n");
    simulation.shared.kills.post_again();
    simulation.rest(100);
    assert!(!simulation.network.is_closed(client), "it was not told");
    simulation.shared.kills.post_again();
    simulation.rest(100);
    assert!(simulation.network.is_closed(client));
    simulation.finish();
}

const GET: &str = "GET /key HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_page_is_sent_when_its_key_is_unlocked() {
    let store = store(0);
    say(&store, "RPUSH list a b c");
    let mut simulation = Simulation::<true>::new(&store, 1, Faults::default());
    for content in ["nothing", "found"] {
        let locked = job(&store, "list").lock(&store, 0);
        let [client, leaves] = [PAGES; 2].map(|listener| simulation.connect(listener, 1000));
        [client, leaves].iter().for_each(|client| simulation.send(*client, GET));
        pass_some(&mut simulation);
        simulation.network.reset(leaves);
        pass_some(&mut simulation);
        drop(locked);
        simulation.expect_page(client, content);
        simulation.finish();
        say(&store, "SET /key value");
    }
}

/// Makes some passes while nothing is to come.
fn pass_some<const READINESS: bool>(simulation: &mut Simulation<'_, READINESS>) {
    for _ in 0..20 {
        simulation.pass(Some(simulation.network.now().monotonic_ms)).expect("a pass");
    }
}

#[test]
fn the_wait_of_a_page_has_a_timeout() {
    let store = store(0);
    let mut simulation = Simulation::<true>::new(&store, 1, Faults::default());
    let begun_ms = simulation.network.now().monotonic_ms;
    let client = simulation.connect(PAGES, 1000);
    simulation.send(client, GET);
    // No thread looks at the key.
    let mut received = Vec::new();
    while simulation.network.read(client, usize::MAX, &mut received) == Read::Nothing {
        simulation.pass(None).expect("the wait has an end");
    }
    assert!(received.ends_with(b"timed out"));
    let waited_ms = simulation.network.now().monotonic_ms - begun_ms;
    assert!((WAIT_MAX_MS..WAIT_MAX_MS + 1000).contains(&waited_ms), "{waited_ms} ms");
    simulation.network.leave(client);
    simulation.finish();
}

#[test]
fn the_number_of_waiting_pages_is_limited() {
    let store = store(0);
    let mut simulation = Simulation::<true>::new(&store, 1, Faults::default());
    let clients: Vec<_> = (0..1100).map(|_| simulation.connect(PAGES, 1000)).collect();
    clients.iter().for_each(|client| simulation.send(*client, GET));
    (0..100).for_each(|_| pass_some(&mut simulation));
    let responses = |simulation: &Simulation<'_, true>| -> String {
        let mut received = Vec::new();
        for client in &clients {
            simulation.network.read(*client, usize::MAX, &mut received);
        }
        String::from_utf8(received).expect("text")
    };
    assert_eq!(responses(&simulation).matches("too many").count(), 1100 - 1024);
    simulation.rest(2 * WAIT_MAX_MS);
    // Each look takes a while here.
    let late = responses(&simulation);
    let [found, timed_out] = ["nothing", "timed out"].map(|text| late.matches(text).count());
    assert!(found > 0 && found + timed_out == 1024, "{found} + {timed_out}");
    clients.iter().for_each(|client| simulation.network.leave(*client));
    simulation.finish();
}
