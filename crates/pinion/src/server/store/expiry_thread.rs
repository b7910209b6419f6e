//! A thread that removes expired keys and frees large values, so that no worker does it.

use std::io;
use std::sync::{Arc, LazyLock, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::killed_clients::StoreKills;
use pinion_store::store::{ExpiryCursor, Store};

/// The time between two looks of the thread: an expired key that no client asks for occupies memory
/// for some more seconds, since each look is at a part of all keys.
const PAUSE: Duration = Duration::from_millis(100);

/// Keys that are looked at each time with one lock: some microseconds.
const KEYS_AT_ONCE: usize = 200;

/// Keys that are looked at each time: a few percent of a processor at most.
const KEYS_MAX: usize = 20_000;

/// Steps for fields of hashes each time; one is some microseconds.
const FIELD_STEPS_MAX: usize = 2000;

/// Starts the thread. It ends with the store.
///
/// # Errors
/// The system has no thread for it.
pub(crate) fn start(store: &Arc<Store>, kills: &Arc<StoreKills>) -> io::Result<()> {
    let (store, kills) = (Arc::downgrade(store), Arc::clone(kills));
    thread::Builder::new().name("store".to_owned()).spawn(move || run(&store, &kills))?;
    Ok(())
}

fn run(store: &Weak<Store>, kills: &StoreKills) {
    let (mut cursor, mut fields_cursor) = (ExpiryCursor::default(), 0);
    while let Some(store) = store.upgrade() {
        let now_ms = unix_ms();
        for _ in 0..KEYS_MAX / KEYS_AT_ONCE {
            if store.remove_expired(&mut cursor, KEYS_AT_ONCE, now_ms) {
                break;
            }
        }
        for _ in 0..FIELD_STEPS_MAX {
            fields_cursor = store.remove_expired_fields(fields_cursor, now_ms);
            if fields_cursor == 0 {
                break;
            }
        }
        store.free_garbage();
        kills.post_again();
        drop(store);
        thread::sleep(PAUSE);
    }
}

/// Returns the time in milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    unix_us() / 1000
}

/// Returns the time in microseconds since 1970.
pub(crate) fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros().try_into().unwrap_or(u64::MAX)
}

/// Returns the microseconds since the first call, on a clock that never goes back.
pub(crate) fn monotonic_us() -> u64 {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    FIRST.elapsed().as_micros().try_into().unwrap_or(u64::MAX)
}
