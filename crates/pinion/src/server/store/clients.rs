//! The clients of the store that one worker serves.

use std::sync::Arc;

use super::pages::StoredPages;
use bytes::Bytes;
use pinion_engine::Poster;
use pinion_engine::app::{ByteStreamEvent, Message};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::exchange::{ContentRoom, Slice};
use pinion_store::client::Client;
use pinion_store::job::Job;
use pinion_store::store::Store;
use pinion_store::{OutputPart, OwnedOutputPart, ReplyOutput};

use super::jobs::{JobEnd, JobOwner, StoreJobs};
use super::killed_clients::StoreKills;
use super::waiting_pages::WaitingPages;

/// The tag of a stream of the store: the number of the client, with this bit.
const STORE_TAG: u64 = 1 << 57;

/// Bytes that a client may send before the server has looked at them.
const INPUT_BYTES: u64 = 64 * 1024;

/// The state of the store that all workers share.
#[derive(Clone, Debug)]
pub(crate) struct StoreShared {
    pub(crate) store: Arc<Store>,
    pub(crate) pages: Arc<StoredPages>,
    pub(crate) jobs: Arc<StoreJobs>,
    pub(crate) kills: Arc<StoreKills>,
    /// Whether each listener is one of the store.
    pub(crate) listeners: Arc<[bool]>,
}

/// The clients of the store that one worker serves.
pub(crate) struct StoreClients {
    shared: StoreShared,
    poster: Poster,
    /// The clients by the number in their tags.
    clients: Vec<Option<StoreClient>>,
    /// Numbers that are not in use.
    unused: Vec<usize>,
    /// Replies of the event that is handled.
    output: ReplyOutput,
    /// Requests that wait for pages.
    waiting_pages: WaitingPages,
}

/// The parts of a worker that serve requests for pages of the store.
pub(crate) struct WorkerPages<'w> {
    pub(crate) pages: &'w StoredPages,
    pub(crate) waiting: &'w mut WaitingPages,
}

struct StoreClient {
    client: Client,
    /// Bytes of input that were taken and that the stream may send again.
    owed_bytes: u64,
    /// A job that waits until the client has read its replies.
    held_job: Option<(Job, JobOwner)>,
    /// The connection is closed when the client does not wait for a job any more.
    is_ending: bool,
}

impl StoreClients {
    /// Makes the clients of one worker.
    pub(crate) fn new(shared: StoreShared, poster: Poster) -> Self {
        let (clients, unused, output) = (Vec::new(), Vec::new(), ReplyOutput::default());
        let waiting_pages = WaitingPages::new(Arc::clone(&shared.jobs), poster.clone());
        Self { shared, poster, clients, unused, output, waiting_pages }
    }

    /// Returns the pages of the store.
    pub(crate) fn pages(&mut self) -> WorkerPages<'_> {
        WorkerPages { pages: &self.shared.pages, waiting: &mut self.waiting_pages }
    }

    /// Returns how many clients there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.clients.len() - self.unused.len()
    }

    /// Returns whether a tag is one of a client of the store.
    pub(crate) fn is_of_store(tag: u64) -> bool {
        tag >> STORE_TAG.trailing_zeros() == 1
    }

    /// Takes a connection that has just begun, if it came by a listener of the store.
    pub(crate) fn open(&mut self, stream: &mut ByteStreamHandle<'_>) -> bool {
        let is_of_store = |listener: usize| self.shared.listeners.get(listener) == Some(&true);
        if !stream.listener().is_some_and(is_of_store) {
            return false;
        }
        let address = stream.peer().map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
        let client = Client::new(&self.shared.store, &address, stream.now().unix_ms);
        let (kills, poster, address) =
            (Arc::clone(&self.shared.kills), self.poster.clone(), stream.address());
        client.on_kill(move || kills.post(&poster, address));
        let client = StoreClient { client, owed_bytes: 0, held_job: None, is_ending: false };
        let number = match self.unused.pop() {
            Some(number) => {
                self.clients[number] = Some(client);
                number
            }
            None => {
                self.clients.push(Some(client));
                self.clients.len() - 1
            }
        };
        stream.set_tag(STORE_TAG | number as u64);
        stream.want(INPUT_BYTES);
        true
    }

    /// Handles an event on the connection of a client of the store.
    pub(crate) fn byte_stream_event(
        &mut self,
        event: ByteStreamEvent<'_>,
        stream: &mut ByteStreamHandle<'_>,
    ) {
        let number = stream.tag().map_or(usize::MAX, |tag| (tag & !STORE_TAG) as usize);
        let Some(Some(client)) = self.clients.get_mut(number) else { return stream.abort() };
        match event {
            ByteStreamEvent::Bytes(bytes) => {
                let now_ms = stream.now().unix_ms;
                client.client.receive(&self.shared.store, bytes, now_ms, &mut self.output);
                client.owed_bytes += bytes.len() as u64;
                self.go_on(number, stream);
            }
            // A client that waits for a job sends nothing more until that has ended.
            ByteStreamEvent::Writable if client.client.is_waiting() => self.push_held_job(number),
            ByteStreamEvent::Writable => stream.want(std::mem::take(&mut client.owed_bytes)),
            ByteStreamEvent::End | ByteStreamEvent::Stopping if client.client.is_waiting() => {
                client.is_ending = true;
                self.push_held_job(number);
            }
            ByteStreamEvent::End | ByteStreamEvent::Stopping => {
                self.remove(number);
                stream.close();
            }
            ByteStreamEvent::Gone(_) => self.remove(number),
            ByteStreamEvent::Posted(message) => self.posted(number, message, stream),
            ByteStreamEvent::Open | ByteStreamEvent::Deadline => {}
        }
    }

    /// Handles the end of the job of a client, or its kill.
    fn posted(&mut self, number: usize, message: Message, stream: &mut ByteStreamHandle<'_>) {
        let Some(Some(client)) = self.clients.get_mut(number) else { return };
        let Ok(mut end) = message.downcast::<JobEnd>() else {
            // It was killed: replies that it has not read are not sent.
            self.remove(number);
            return stream.abort();
        };
        let Some(mut finished) = end.take() else { return };
        send_owned(&self.shared.store, finished.take_output(), stream);
        let now_ms = stream.now().unix_ms;
        client.client.finish(&self.shared.store, finished, now_ms, &mut self.output);
        self.go_on(number, stream);
    }

    /// Sends the replies of a client, and has its job run if it has one.
    fn go_on(&mut self, number: usize, stream: &mut ByteStreamHandle<'_>) {
        let Some(Some(client)) = self.clients.get_mut(number) else { return };
        let room = send(&self.shared.store, &mut self.output, stream);
        if let Some(job) = client.client.take_job() {
            let (poster, address) = (self.poster.clone(), stream.address());
            let owner = JobOwner { poster, address };
            // A client that does not read its replies has nothing more executed.
            if room == ContentRoom::Full && !client.is_ending {
                client.held_job = Some((job, owner));
                return;
            }
            return self.shared.jobs.push(job, owner);
        }
        if client.client.is_waiting() {
            return;
        }
        if client.client.is_closing() || client.is_ending {
            self.remove(number);
            return stream.close();
        }
        // A stream that is gone has one more event, so its number is in use until then.
        if room == ContentRoom::Free {
            stream.want(std::mem::take(&mut client.owed_bytes));
        }
    }

    /// Runs the job of a client that was to read its replies first.
    fn push_held_job(&mut self, number: usize) {
        let Some(Some(client)) = self.clients.get_mut(number) else { return };
        if let Some((job, owner)) = client.held_job.take() {
            self.shared.jobs.push(job, owner);
        }
    }

    fn remove(&mut self, number: usize) {
        // The thread that ends a job frees the memory that it holds for the client.
        self.push_held_job(number);
        if let Some(mut client) = self.clients[number].take() {
            client.client.disconnect(&self.shared.store);
            self.unused.push(number);
        }
    }
}

/// Sends all replies.
fn send(
    store: &Arc<Store>,
    output: &mut ReplyOutput,
    stream: &mut ByteStreamHandle<'_>,
) -> ContentRoom {
    // Without new replies, the unread bytes of earlier ones still count.
    let mut room = stream.write(Slice::Copied(b""));
    for part in output.parts() {
        room = stream.write(match part {
            OutputPart::Bytes(bytes) => Slice::Copied(bytes),
            OutputPart::Shared(string) => Slice::Shared(shared(store, string.clone())),
        });
    }
    output.clear();
    room
}

/// Sends the reply of a job, which may be large, without copying it.
fn send_owned(store: &Arc<Store>, output: ReplyOutput, stream: &mut ByteStreamHandle<'_>) {
    let (bytes, parts) = output.into_parts();
    let bytes = shared(store, Arc::new(bytes));
    for part in parts {
        stream.write(Slice::Shared(match part {
            OwnedOutputPart::Bytes(range) => bytes.slice(range),
            OwnedOutputPart::Shared(string) => shared(store, string),
        }));
    }
}

/// Returns a long string on its way to a client.
pub(super) fn shared(store: &Arc<Store>, string: Arc<Vec<u8>>) -> Bytes {
    Bytes::from_owner(SentString { string, store: Arc::clone(store) })
}

/// A long string on its way to a client.
struct SentString {
    string: Arc<Vec<u8>>,
    store: Arc<Store>,
}

impl AsRef<[u8]> for SentString {
    fn as_ref(&self) -> &[u8] {
        &self.string
    }
}

impl Drop for SentString {
    fn drop(&mut self) {
        // A worker does not free a very long one itself.
        self.store.discard_string(&mut self.string);
    }
}
