//! The same contract over HTTP/2: the handlers are those of HTTP/1, and the client is the
//! [strict](crate::strict) one.

mod connection_end;
mod request_content;
mod responses;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::strict::{Client, End, Manner, Stream};
use crate::test_server::TestServer;

/// A connection with prior knowledge.
pub(crate) struct Http2 {
    pub(crate) socket: TcpStream,
    pub(crate) client: Client,
    /// Whether the server has closed.
    pub(crate) is_closed: bool,
}

impl Http2 {
    pub(crate) fn connect(server: &TestServer) -> Http2 {
        Http2::with(server, Manner::default())
    }

    pub(crate) fn with(server: &TestServer, manner: Manner) -> Http2 {
        let socket = server.connect();
        socket.set_nodelay(true).unwrap();
        Http2 { socket, client: Client::new(manner), is_closed: false }
    }

    /// Sends the written bytes. A server that has closed does not accept them.
    pub(crate) fn flush(&mut self) {
        let out = std::mem::take(&mut self.client.out);
        let _closed = self.socket.write_all(&out);
    }

    /// Sends and reads until the condition holds, or the server has closed.
    #[track_caller]
    pub(crate) fn until(&mut self, is_there: impl Fn(&Client) -> bool) -> &mut Client {
        loop {
            self.flush();
            if is_there(&self.client) || self.is_closed {
                return &mut self.client;
            }
            self.read();
        }
    }

    /// Reads until the condition holds, or the server has closed, without sending anything.
    #[track_caller]
    pub(crate) fn listen(&mut self, is_there: impl Fn(&Client) -> bool) {
        while !is_there(&self.client) && !self.is_closed {
            self.read();
        }
    }

    #[track_caller]
    fn read(&mut self) {
        let mut buffer = vec![0; 1 << 16];
        match self.socket.read(&mut buffer) {
            Ok(0) => self.is_closed = true,
            Ok(bytes) => self.client.take(&buffer[..bytes]).unwrap(),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => self.is_closed = true,
            Err(error) => panic!("{error}: {:?}", self.client.streams),
        }
    }

    /// Sends and reads until a stream has ended.
    #[track_caller]
    pub(crate) fn end_of(&mut self, id: u32) -> &Stream {
        let client = self.until(|client| client.streams[&id].end.is_some());
        &client.streams[&id]
    }

    /// Returns the content of a complete response with status 200.
    #[track_caller]
    pub(crate) fn content_of(&mut self, id: u32) -> String {
        let stream = self.end_of(id);
        assert_eq!((stream.status, stream.end), (Some(200), Some(End::Whole)), "{stream:?}");
        String::from_utf8_lossy(&stream.content).into_owned()
    }

    /// Returns the content of the response to a path.
    #[track_caller]
    pub(crate) fn get(&mut self, path: &str) -> String {
        let id = self.client.get(path);
        self.content_of(id)
    }

    /// Sends all of the content as windows allow, or until the server stops the stream, and
    /// `trailers` unless there are none.
    #[track_caller]
    pub(crate) fn send(&mut self, id: u32, content: &[u8], trailers: &[(&str, &str)]) {
        let mut at = 0;
        loop {
            let end = trailers.is_empty();
            at += self.client.data(id, &content[at..], end);
            let stream = &self.client.streams[&id];
            if at == content.len() || stream.end.is_some() {
                break;
            }
            self.until(|client| client.room(id) > 0 || client.streams[&id].end.is_some());
        }
        let stream = &self.client.streams[&id];
        if !trailers.is_empty() && stream.end.is_none() {
            self.client.trailers(id, trailers);
        }
        self.flush();
    }

    /// Waits until the server has closed.
    #[track_caller]
    pub(crate) fn closed(&mut self) {
        self.until(|_| false);
    }

    /// Waits until the server has processed everything that was sent so far.
    #[track_caller]
    pub(crate) fn seen(&mut self) {
        let pongs = self.client.pongs;
        self.client.ping();
        self.until(|client| client.pongs > pongs);
    }
}
