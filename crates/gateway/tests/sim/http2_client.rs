//! A simulated client of HTTP/2 with all its requests on one connection at once.

use pinion_engine::backend::sim::{Client, Connect, Network, Random, Read};

use crate::http1_client::{Content, Outcome, Request};
use crate::http1_reader::{Message, Reading};
use crate::strict::{self, End, Manner, Stream};

/// A client.
pub(crate) struct Http2Client {
    requests: Vec<Request>,
    /// The stream of each request, with the bytes of its content that were sent.
    streams: Vec<(u32, usize)>,
    pub(crate) outcomes: Vec<Outcome>,
    connection: Option<Client>,
    protocol: strict::Client,
}

impl Http2Client {
    pub(crate) fn new(requests: Vec<Request>) -> Self {
        let requests = requests
            .into_iter()
            .map(|request| Request { is_http10: false, is_http2: true, ..request })
            .collect();
        let protocol = strict::Client::new(Manner::default());
        let (streams, outcomes) = (Vec::new(), Vec::new());
        Self { requests, streams, outcomes, connection: None, protocol }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.outcomes.len() == self.requests.len()
    }

    /// Returns its requests with their outcomes.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&Request, &Outcome)> {
        self.requests.iter().zip(&self.outcomes)
    }

    /// Performs the actions that are possible now. Returns whether there were any.
    ///
    /// # Errors
    /// Returns the rule of HTTP/2 that the server has broken.
    pub(crate) fn act(
        &mut self,
        network: &Network,
        random: &mut Random,
        pieces: u32,
    ) -> Result<bool, String> {
        if self.is_over() {
            return Ok(false);
        }
        let Some(client) = self.connection else {
            let window_bytes = 64 * 1024;
            let connect = Connect { listener: 0, window_bytes, local: false, protected: false };
            self.connection = Some(network.connect(connect));
            self.begin();
            return Ok(true);
        };
        self.send_content();
        let out = &mut self.protocol.out;
        let bytes = random.part_of(out.len(), pieces);
        let taken = if bytes > 0 { network.send(client, &out[..bytes]) } else { 0 };
        out.drain(..taken);
        let mut came = Vec::new();
        let read = network.read(client, random.part_of(64 * 1024, pieces), &mut came);
        self.protocol.take(&came)?;
        if self.protocol.is_answered() || matches!(read, Read::Ended | Read::Reset) {
            self.outcomes = self.streams.iter().map(|(id, _)| self.outcome(*id)).collect();
            network.leave(client);
            return Ok(true);
        }
        Ok(taken > 0 || !came.is_empty())
    }

    /// Begins all requests.
    fn begin(&mut self) {
        for request in &self.requests {
            let (target, length) = (request.target(), request.content().len().to_string());
            let mut fields = vec![("te", "trailers"), ("key", "1")];
            if let Content::Length(_) = request.content {
                fields.push(("content-length", &length));
            }
            let ends = request.content == Content::None;
            let id = self.protocol.request(request.method, &target, &fields, ends);
            self.streams.push((id, 0));
        }
    }

    /// Sends content as the windows allow.
    fn send_content(&mut self) {
        let Self { requests, streams, protocol, .. } = self;
        for (request, (id, sent)) in requests.iter().zip(streams) {
            let stream = &protocol.streams[id];
            if stream.sent_end || stream.end.is_some() || stream.asked_to_stop {
                continue;
            }
            let (content, number) = (request.content(), request.id.to_string());
            let is_chunked = matches!(request.content, Content::Chunked(_));
            *sent += protocol.data(*id, &content[*sent..], !is_chunked);
            if is_chunked && *sent == content.len() {
                protocol.trailers(*id, &[("x-sum", &number)]);
            }
        }
    }

    fn outcome(&self, id: u32) -> Outcome {
        let stream = &self.protocol.streams[&id];
        let head =
            |status: u16| Message { start: format!("HTTP/2 {status}"), ..Message::default() };
        let message = stream.status.map(|status| Message {
            fields: stream.fields.clone(),
            content: stream.content.clone(),
            trailers: stream.trailers.clone(),
            ..head(status)
        });
        let is_whole = |stream: &Stream| stream.end == Some(End::Whole);
        let reading = Reading {
            has_all_content: false,
            interims: stream.interim.iter().map(|status| head(*status)).collect(),
            message,
            end: is_whole(stream).then_some(stream.content.len()),
            is_malformed: false,
        };
        let saw = (!is_whole(stream)).then_some(Read::Reset);
        Outcome { reading, saw, has_left: false }
    }
}
