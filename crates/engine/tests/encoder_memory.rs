//! The memory of an encoder is the amount that is counted for it against the memory budget.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use pinion_engine::app::{App, ByteStreamEvent, Event};
use pinion_engine::backend::sim::{Connect, Faults, Network};
use pinion_engine::byte_stream_handle::ByteStreamHandle;
use pinion_engine::connection_actions::Connections;
use pinion_engine::exchange::{Exchange, Slice};
use pinion_engine::limits::{BROTLI_ENCODER_BYTES, CHUNK_BYTES, GZIP_ENCODER_BYTES};
use pinion_engine::response_compression;
use pinion_engine::settings::{ListenerSettings, Protocol, Protocols, WorkerSettings};
use pinion_engine::stepped_worker::Stepped;
use pinion_http::content_coding::Coding;
use pinion_http::field::Field;

/// Bytes in use, and the maximum so far.
static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the requirements of the trait include all requirements of the system's allocator.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the trait requires that the block came from `alloc` and is not used again.
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(block, layout) };
    }
}

/// Returns a piece of content: text in which some words repeat, and some do not.
fn piece(nth: u32) -> Vec<u8> {
    let word = |n: u32| n.wrapping_mul(2_654_435_761).rotate_left(n % 32) % 5_000;
    let words = (0..6_000).map(|n| format!("w{} ", word(nth * 6_000 + n)));
    words.collect::<String>().into_bytes()
}

/// Writes pieces and records the memory that this takes in addition to the queued bytes.
struct Weigher {
    coding: Coding,
    taken: Vec<usize>,
    left_bytes: usize,
}

impl App for Weigher {
    fn exchange(&mut self, event: Event<'_>, exchange: &mut Exchange<'_>) {
        let Event::Head(head) = event else { return };
        assert_eq!(response_compression::choose(head), self.coding);
        let pieces: Vec<_> = (0..20).map(piece).collect();
        let before = USED.load(Ordering::Relaxed);
        exchange.compress(self.coding);
        let text = Field { name: b"Content-Type", value: b"text/plain" };
        exchange.head(200, [text].into_iter(), None);
        for (nth, piece) in pieces.iter().enumerate() {
            MOST.store(USED.load(Ordering::Relaxed), Ordering::Relaxed);
            exchange.write(Slice::Copied(piece));
            if nth % 3 == 0 {
                exchange.flush();
            }
            let most = MOST.load(Ordering::Relaxed) - before;
            // Queued bytes are in chunks, of which the last is not full.
            let queued = exchange.queued_bytes() as usize + 2 * CHUNK_BYTES;
            self.taken.push(most.saturating_sub(queued));
        }
        exchange.end(std::iter::empty());
        let queued = exchange.queued_bytes() as usize;
        self.left_bytes = USED.load(Ordering::Relaxed).saturating_sub(before + queued);
    }

    fn byte_stream_event(&mut self, _: ByteStreamEvent<'_>, _: &mut ByteStreamHandle<'_>) {}

    fn pass(&mut self, _: &mut Connections<'_>) {}
}

/// Returns the largest memory of an encoder of a coding, and its memory afterwards, in bytes.
fn weighed(coding: Coding) -> (usize, usize) {
    let network = Network::new(1, Faults::default(), 1);
    let protocol = Protocol::Http(Protocols::ALL);
    let listeners = vec![ListenerSettings::plain(protocol)];
    let settings = WorkerSettings { listeners, ..WorkerSettings::default() };
    let make_app = |_| Weigher { coding, taken: Vec::new(), left_bytes: 0 };
    let mut worker = Stepped::<true, _>::new(network.clone(), settings, make_app);
    let window_bytes = 1000;
    let client =
        network.connect(Connect { listener: 0, window_bytes, local: false, protected: false });
    let token = coding.token();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {token}\r\n\r\n");
    assert_eq!(network.send(client, request.as_bytes()), request.len());
    while worker.app().taken.is_empty() {
        network.act_at(Some(network.now().monotonic_ms));
        worker.pass().expect("a pass");
    }
    let most = worker.app().taken.iter().copied().max().expect("pieces");
    (most, worker.app().left_bytes)
}

#[test]
fn an_encoder_uses_its_counted_memory_and_frees_it() {
    for (coding, counted) in
        [(Coding::Gzip, GZIP_ENCODER_BYTES), (Coding::Brotli, BROTLI_ENCODER_BYTES)]
    {
        let (most, left) = weighed(coding);
        println!("{coding:?}: {most} bytes, {left} left");
        assert!(most <= counted, "{coding:?} takes {most} bytes");
        assert!(most > counted / 2, "{coding:?} takes {most} bytes, too many are counted");
        assert!(left <= 4 * CHUNK_BYTES, "{left} bytes are left of {coding:?}");
    }
}
