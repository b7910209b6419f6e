//! A store and its clients, spoken to in lines.

use pinion_store::client::Client;
use pinion_store::settings::Settings;
use pinion_store::store::Store;
use pinion_store::{OutputPart, ReplyOutput};

/// A store at a time that only the test changes.
pub(crate) struct Conversation {
    pub(crate) store: Store,
    pub(crate) now_ms: u64,
    clients: Vec<Client>,
}

impl Conversation {
    pub(crate) fn new() -> Self {
        Self::with_settings(Settings::default())
    }

    pub(crate) fn with_settings(settings: Settings) -> Self {
        let now_ms = 1_700_000_000_000;
        let store = Store::new(settings, [7; 24], now_ms);
        Self { store, now_ms, clients: Vec::new() }
    }

    /// Sends a line as client 0. Returns the replies as text: `\r\n` is a space.
    pub(crate) fn say(&mut self, line: &str) -> String {
        self.say_as(0, line)
    }

    /// Sends a line as one of the clients.
    pub(crate) fn say_as(&mut self, client: usize, line: &str) -> String {
        while self.clients.len() <= client {
            let address = format!("127.0.0.1:{}", 50_000 + self.clients.len());
            self.clients.push(Client::new(&self.store, &address, self.now_ms));
        }
        let line = format!("{line}\r\n");
        let mut output = ReplyOutput::default();
        self.clients[client].receive(&self.store, line.as_bytes(), self.now_ms, &mut output);
        self.clients[client].run_jobs(&self.store, self.now_ms, &mut output);
        let mut bytes = Vec::new();
        for part in output.parts() {
            match part {
                OutputPart::Bytes(part) => bytes.extend_from_slice(part),
                OutputPart::Shared(part) => bytes.extend_from_slice(part),
            }
        }
        String::from_utf8_lossy(&bytes).trim_end().replace("\r\n", " ")
    }

    /// Asserts the replies to lines, in order.
    #[track_caller]
    pub(crate) fn expect(&mut self, exchanges: &[(&str, &str)]) {
        for (line, reply) in exchanges {
            assert_eq!(self.say(line), *reply, "{line}");
        }
    }
}
