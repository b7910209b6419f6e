//! Commands of the store without the kernel: from the bytes of a command to the bytes of its reply.
//!
//! A round is one command. Commands come in batches, as those of a client that pipelines do, with
//! random keys of [`KEYS`].

use std::hint::black_box;

use pinion_store::ReplyOutput;
use pinion_store::client::Client;
use pinion_store::settings::Settings;
use pinion_store::store::Store;

const KEYS: u64 = 100_000;
/// The number of commands that arrive together.
const PIPELINED: usize = 64;
/// Different batches, so that all keys are used: the processor does not learn them by heart.
const BATCHES: usize = 2048;
const NOW_MS: u64 = 1_800_000_000_000;

/// Commands whose words `#` are random numbers below [`KEYS`].
const COMMANDS: &[(&str, &str)] = &[
    ("store-get", "GET key:#"),
    ("store-set", "SET key:# value-of-16-byte"),
    ("store-incr", "INCR count:#"),
    ("store-mget", "MGET key:# key:# key:# key:# key:# key:# key:# key:# key:# key:#"),
    ("store-hset", "HSET hash:# field value-of-16-byte"),
    ("store-hgetall", "HGETALL hash-of-10"),
    ("store-lpush", "LPUSH list:# element"),
    ("store-zadd", "ZADD sorted # member:#"),
    ("store-zrange", "ZRANGE sorted 0 9"),
];

/// A client of a store that has keys, and the commands that it sends.
pub(crate) struct StoreClient {
    store: Store,
    client: Client,
    output: ReplyOutput,
    batches: Vec<Vec<u8>>,
    /// Commands that were executed.
    count: usize,
}

impl StoreClient {
    /// Returns the client of a station; `None` if it is not one of the store.
    pub(crate) fn new(station: &str) -> Option<Self> {
        let (_, command) = COMMANDS.iter().find(|(name, _)| *name == station)?;
        let store = Store::new(Settings::default(), [7; 24], NOW_MS);
        let client = Client::new(&store, "127.0.0.1:1", NOW_MS);
        let mut this =
            Self { store, client, output: ReplyOutput::default(), batches: vec![], count: 0 };
        let mut random = 1;
        for number in 0..KEYS {
            this.execute(&command_of(&format!("SET key:{number:012} value-of-16-byte"), &mut 0));
        }
        for number in 0..10 {
            this.execute(&command_of(&format!("HSET hash-of-10 field-{number} value"), &mut 0));
            this.execute(&command_of(&format!("ZADD sorted {number} m{number}"), &mut 0));
        }
        let mut batch = || (0..PIPELINED).flat_map(|_| command_of(command, &mut random)).collect();
        let batches: Vec<Vec<u8>> = (0..BATCHES).map(|_| batch()).collect();
        batches.iter().for_each(|batch| this.execute(batch));
        this.batches = batches;
        Some(this)
    }

    /// Counts a command; those of a batch are executed with its first one.
    pub(crate) fn command(&mut self) -> u64 {
        if self.count.is_multiple_of(PIPELINED) {
            let Self { store, client, output, batches, count } = self;
            output.clear();
            let batch = &batches[*count / PIPELINED % BATCHES];
            client.receive(store, black_box(batch), NOW_MS, output);
        }
        self.count += 1;
        self.output.len() as u64
    }

    fn execute(&mut self, commands: &[u8]) {
        self.output.clear();
        self.client.receive(&self.store, commands, NOW_MS, &mut self.output);
    }
}

/// Returns a command as clients send it.
fn command_of(text: &str, random: &mut u64) -> Vec<u8> {
    let words: Vec<String> = text.split(' ').map(|word| with_numbers(word, random)).collect();
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

/// Replaces the `#` of a word by a random number (splitmix64).
fn with_numbers(word: &str, random: &mut u64) -> String {
    let Some((before, _)) = word.split_once('#') else { return word.to_owned() };
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *random;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("{before}{:012}", (mixed ^ mixed >> 31) % KEYS)
}
