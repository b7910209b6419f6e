//! A client of a store: commands as lines of text, and replies as they come.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::PATIENCE;

/// Fields of the large hash. Its reply has about 8 MB, which is more than a connection has space
/// for: while the client has not read all of it, the reply is on its way.
pub const FIELDS: usize = 300_000;

/// Fields of one command that fills the hash.
const FIELDS_AT_ONCE: usize = 1000;

/// A connection of a client. Its methods panic where a server that works does not lead.
#[derive(Debug)]
pub struct StoreClient {
    stream: BufReader<TcpStream>,
}

impl StoreClient {
    /// Connects to a store at a port of this machine.
    ///
    /// # Panics
    /// Panics if the store does not accept it.
    #[track_caller]
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the store accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self { stream: BufReader::new(stream) }
    }

    /// Sends commands, one in each line.
    ///
    /// # Panics
    /// Panics if the connection was closed.
    #[track_caller]
    pub fn send(&mut self, commands: &str) {
        let commands = format!("{commands}\n").replace('\n', "\r\n");
        self.stream.get_mut().write_all(commands.as_bytes()).expect("the store reads");
    }

    /// Returns the connection itself.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    /// Reads a line of a reply.
    ///
    /// # Panics
    /// Panics if there is none.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the store replies");
        line.trim_end().to_owned()
    }

    /// Sends a command whose reply is one line.
    #[track_caller]
    pub fn say(&mut self, command: &str) -> String {
        self.send(command);
        self.line()
    }

    /// Reads an array of strings. Returns how many there are.
    ///
    /// # Panics
    /// Panics if the reply is no array.
    #[track_caller]
    pub fn array(&mut self) -> usize {
        let head = self.line();
        let count = head.strip_prefix('*').and_then(|count| count.parse().ok());
        let count = count.unwrap_or_else(|| panic!("no array: {head}"));
        (0..count * 2).for_each(|_| drop(self.line()));
        count
    }

    /// Reads until the server closes the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A client that was killed is cut off.
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }

    /// Fills the hash `large` with [`FIELDS`] fields.
    ///
    /// # Panics
    /// Panics if there are some already.
    #[track_caller]
    pub fn fill(&mut self) {
        for from in (0..FIELDS).step_by(FIELDS_AT_ONCE) {
            let fields = (from..from + FIELDS_AT_ONCE).map(|it| format!(" field:{it} value"));
            let command = format!("HSET large{}", fields.collect::<String>());
            assert_eq!(self.say(&command), format!(":{FIELDS_AT_ONCE}"));
        }
    }
}
