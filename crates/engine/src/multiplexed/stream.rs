//! One exchange of a multiplexed connection: its state, its queued output, and the content of its
//! request that came before it was wanted.

use std::num::NonZeroU32;

use pinion_http::request_head::Framing;

use crate::buffer_pool::Pool;
use crate::end_reason::Gone;
use crate::exchange::state::{ExchangeStage, ExchangeState};
use crate::file_mapping::Mappings;
use crate::input_buffer::InputBuffer;
use crate::output_queue::{NO_OUTPUT, Outputs};
use crate::settings::WorkerSettings;

/// The state of one stream of HTTP/2 or HTTP/3.
pub(crate) struct MultiplexedStream {
    pub(crate) state: ExchangeState,
    /// The size of the request's head, in bytes, if the handler keeps it.
    pub(crate) head_bytes: u32,
    /// The reason why the engine ended the exchange, if it did.
    pub(crate) given_up: Option<Gone>,
    /// Whether the application was informed that the request's content is complete.
    pub(crate) end_reported: bool,
    /// The deadline that the application has set, in milliseconds; 0 is none.
    pub(crate) app_deadline_ms: u64,
    /// The number with which the application wants to be informed of the end of the exchange
    /// ([`Exchange::notify_end`](crate::exchange::Exchange::notify_end)).
    pub(crate) end_number: Option<NonZeroU32>,
    /// The index of the queue of content that is in no frame yet.
    pub(crate) output: u32,
    /// The encoded trailers of the response, which are sent once its content was.
    pub(crate) trailers: Option<Vec<u8>>,
    /// Content of the request that is not wanted yet.
    pub(crate) unread: InputBuffer,
    /// Input that is in no complete frame yet, or is not wanted yet (HTTP/3).
    pub(crate) held: InputBuffer,
    /// The trailers of the request, as field lines, until its content was read.
    pub(crate) unread_trailers: Vec<u8>,
    /// The time at which it began to wait for its head, or for its next content, in milliseconds.
    pub(crate) waits_since_ms: u64,
    /// Whether the client has ended its side of the stream.
    pub(crate) ended: bool,
    /// The length of the content, in bytes, if the client has announced it.
    pub(crate) announced_bytes: Option<u64>,
    /// Bytes of the content that have arrived.
    pub(crate) came_bytes: u64,
    /// Whether the next input is known to be content, which is not read before it is wanted
    /// (HTTP/3).
    pub(crate) content_follows: bool,
    /// The maximum number of bytes of the content.
    pub(crate) content_max_bytes: u64,
}

impl Default for MultiplexedStream {
    fn default() -> Self {
        Self {
            state: ExchangeState::default(),
            head_bytes: 0,
            given_up: None,
            end_reported: false,
            app_deadline_ms: 0,
            end_number: None,
            output: NO_OUTPUT,
            trailers: None,
            unread: InputBuffer::default(),
            held: InputBuffer::default(),
            unread_trailers: Vec::new(),
            waits_since_ms: 0,
            ended: false,
            announced_bytes: None,
            came_bytes: 0,
            content_follows: false,
            content_max_bytes: 0,
        }
    }
}

impl MultiplexedStream {
    /// Returns whether the announced content of the request is within its limit.
    pub(crate) fn fits(&self) -> bool {
        self.announced_bytes.is_none_or(|bytes| bytes <= self.content_max_bytes)
    }

    /// Returns whether more content was announced, or has arrived, than is allowed.
    pub(crate) fn is_too_much(&self) -> bool {
        !self.fits() || self.came_bytes > self.content_max_bytes
    }

    /// Returns whether its head has not arrived yet.
    pub(crate) fn awaits_head(&self) -> bool {
        self.state.stage == ExchangeStage::Head
    }

    /// Returns whether the application waits for content, or only for the end of it.
    pub(crate) fn waits_for_content(&self) -> bool {
        let ExchangeState { stage, wanted, .. } = self.state;
        let is_all_there = self.announced_bytes == Some(self.came_bytes);
        // If the length is not known, the end may come next.
        let may_be_all = is_all_there || self.announced_bytes.is_none() && !self.content_follows;
        let is_wanted = wanted.is_some_and(|bytes| bytes > 0 || may_be_all);
        stage.is_unanswered() && is_wanted && self.unread.is_empty() && !self.ended
    }

    /// Returns when the stream is late, in milliseconds; `None` if it does not wait for the client.
    pub(crate) fn due_ms(&self, settings: &WorkerSettings) -> Option<u64> {
        let patience_ms = match () {
            () if self.awaits_head() => settings.head_ms,
            () if self.awaits_body() => settings.body_ms,
            () => return None,
        };
        Some(self.waits_since_ms.saturating_add(patience_ms))
    }

    /// Returns whether the client has to send content before long. Silence in a tunnel may be
    /// intended.
    pub(crate) fn awaits_body(&self) -> bool {
        !self.state.is_tunnel && self.waits_for_content()
    }

    /// Returns whether output is queued that the client has to take before long, once its
    /// flow-control window is the reason for the wait. In an open tunnel the application decides
    /// how long that may last.
    pub(crate) fn awaits_window(&self) -> bool {
        let is_open_tunnel = self.state.is_tunnel && self.state.stage.is_open();
        self.output != NO_OUTPUT && !is_open_tunnel
    }

    /// Returns whether the client is late.
    pub(crate) fn delay_at_random(&self, now_ms: u64, settings: &WorkerSettings) -> bool {
        self.due_ms(settings).is_some_and(|due_ms| due_ms <= now_ms)
    }

    /// Returns whether input of the request can be used now: its head, wanted content, input that
    /// is no content and needs no `want`, or discarded content.
    pub(crate) fn takes_input(&self, is_content: bool) -> bool {
        let is_wanted = |bytes| bytes > 0 || !is_content || self.is_behind_content();
        !self.state.stage.is_unanswered() || self.state.wanted.is_some_and(is_wanted)
    }

    /// Returns whether all of the announced content has arrived.
    fn is_behind_content(&self) -> bool {
        self.announced_bytes.is_some_and(|bytes| self.came_bytes >= bytes)
    }

    /// Returns the length that the framing of a request announces.
    pub(crate) fn announced(framing: Framing) -> Option<u64> {
        match framing {
            Framing::None => Some(0),
            Framing::Length(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Begins an exchange in place of one that has given its resources back.
    #[inline]
    pub(crate) fn begin(&mut self, state: ExchangeState) {
        debug_assert!(self.output == NO_OUTPUT && self.unread.held_bytes() == 0);
        debug_assert!(self.trailers.is_none() && self.unread_trailers.is_empty());
        debug_assert!(self.end_number.is_none());
        self.state = state;
        self.given_up = None;
        self.end_reported = false;
        self.app_deadline_ms = 0;
        self.ended = false;
        self.announced_bytes = None;
        self.came_bytes = 0;
        self.content_follows = false;
        self.content_max_bytes = 0;
    }

    /// Ends an exchange that cannot continue: the stream is reset after this event.
    #[cold]
    pub(crate) fn give_up(&mut self, why: Gone) {
        self.state.stage.give_up();
        self.given_up = Some(why);
    }

    /// Gives its resources back, and returns how many bytes waited to be sent. The number of the
    /// exchange is added to `ended`, if the application wants to be informed of its end.
    pub(crate) fn give_back(
        &mut self,
        outputs: &mut Outputs,
        pool: &mut Pool,
        mappings: &mut Mappings,
        ended: &mut Vec<NonZeroU32>,
    ) -> u64 {
        debug_assert!(self.state.encoder.is_none());
        ended.extend(self.end_number.take());
        std::mem::take(&mut self.unread).give_back(pool);
        std::mem::take(&mut self.held).give_back(pool);
        self.trailers = None;
        self.unread_trailers = Vec::new();
        let Some(output) = outputs.get(self.output) else { return 0 };
        let bytes = output.bytes;
        output.clear(pool, mappings);
        outputs.free(&mut self.output);
        bytes
    }
}
