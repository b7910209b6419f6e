//! One exchange of a connection that carries many: what it remembers, what waits to be sent on it,
//! and what of its request came before it was wanted.

use std::num::NonZeroU32;

use pinion_http::request::Framing;

use crate::exchange::state::{ExchangeStage, ExchangeState};
use crate::gone::Gone;
use crate::input_buffer::InputBuffer;
use crate::mapping::Mappings;
use crate::output::{NO_OUTPUT, Outputs};
use crate::pool::Pool;
use crate::settings::WorkerSettings;

/// See the module's head.
pub(crate) struct MultiplexedStream {
    pub(crate) state: ExchangeState,
    /// How large the head of the request is, in bytes, if the handler keeps it.
    pub(crate) head_bytes: u32,
    /// Why the engine gave the exchange up, if it did.
    pub(crate) given_up: Option<Gone>,
    /// The application was told that the request's content is complete.
    pub(crate) told_end: bool,
    /// The deadline that the application has asked for, in milliseconds; 0 is none.
    pub(crate) asked_ms: u64,
    /// The number under which the application wants to hear of its end
    /// ([`Exchange::notify_end`](crate::exchange::Exchange::notify_end)).
    pub(crate) end_number: Option<NonZeroU32>,
    /// Index of the queue of content that is in no frame yet.
    pub(crate) output: u32,
    /// Fields behind the content of the answer, as they go out, once that has.
    pub(crate) trailers: Option<Vec<u8>>,
    /// Content of the request that waits to be wanted.
    pub(crate) unread: InputBuffer,
    /// Input that is in no whole frame yet, or is not wanted yet (HTTP/3).
    pub(crate) held: InputBuffer,
    /// Fields behind the content of the request, as lines, until that was read.
    pub(crate) unread_trailers: Vec<u8>,
    /// When it began to wait for what it waits for: its head, or the next of its content.
    pub(crate) waits_since_ms: u64,
    /// Nothing more comes from the client.
    pub(crate) ended: bool,
    /// How long the content is, if the client has said so.
    pub(crate) announced_bytes: Option<u64>,
    /// How much of it has come.
    pub(crate) came_bytes: u64,
    /// What comes next is known to be content, which is not read before it is wanted (HTTP/3).
    pub(crate) content_follows: bool,
    /// How much of it is allowed.
    pub(crate) content_max_bytes: u64,
}

impl Default for MultiplexedStream {
    fn default() -> Self {
        Self {
            state: ExchangeState::default(),
            head_bytes: 0,
            given_up: None,
            told_end: false,
            asked_ms: 0,
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
    /// Whether the content that the request announces is within its limit.
    pub(crate) fn fits(&self) -> bool {
        self.announced_bytes.is_none_or(|bytes| bytes <= self.content_max_bytes)
    }

    /// Whether more content is announced, or has come, than is allowed.
    pub(crate) fn is_too_much(&self) -> bool {
        !self.fits() || self.came_bytes > self.content_max_bytes
    }

    /// Whether its head has not come yet.
    pub(crate) fn awaits_head(&self) -> bool {
        self.state.stage == ExchangeStage::Head
    }

    /// Whether the application waits for content, or for nothing but the end of it.
    pub(crate) fn waits_for_content(&self) -> bool {
        let ExchangeState { stage, wanted, .. } = self.state;
        let is_all_there = self.announced_bytes == Some(self.came_bytes);
        // Where the length is not known, what comes next may be the end.
        let may_be_all = is_all_there || self.announced_bytes.is_none() && !self.content_follows;
        let is_wanted = wanted.is_some_and(|bytes| bytes > 0 || may_be_all);
        stage.is_unanswered() && is_wanted && self.unread.is_empty() && !self.ended
    }

    /// When what it waits for is late, in milliseconds; none when that is not for the client to
    /// send.
    pub(crate) fn due_ms(&self, settings: &WorkerSettings) -> Option<u64> {
        let patience_ms = match () {
            () if self.awaits_head() => settings.head_ms,
            () if self.awaits_body() => settings.body_ms,
            () => return None,
        };
        Some(self.waits_since_ms.saturating_add(patience_ms))
    }

    /// Whether the client has to send content before long. Whoever is silent in a tunnel may be
    /// meant to be.
    pub(crate) fn awaits_body(&self) -> bool {
        !self.state.is_tunnel && self.waits_for_content()
    }

    /// Whether something is queued that the client has to take before long, once its window is the
    /// reason. In an open tunnel the application decides how long that may last.
    pub(crate) fn awaits_window(&self) -> bool {
        let is_open_tunnel = self.state.is_tunnel && self.state.stage.is_open();
        self.output != NO_OUTPUT && !is_open_tunnel
    }

    /// Whether the client is late with what the stream waits for.
    pub(crate) fn is_late(&self, now_ms: u64, settings: &WorkerSettings) -> bool {
        self.due_ms(settings).is_some_and(|due_ms| due_ms <= now_ms)
    }

    /// Whether what comes of the request can be used now: its head, content that is wanted, what is
    /// no content, which needs no want, or what nobody wants and is passed over.
    pub(crate) fn takes_input(&self, is_content: bool) -> bool {
        let is_wanted = |bytes| bytes > 0 || !is_content || self.is_behind_content();
        !self.state.stage.is_unanswered() || self.state.wanted.is_some_and(is_wanted)
    }

    /// Whether all of the content has come that was announced.
    fn is_behind_content(&self) -> bool {
        self.announced_bytes.is_some_and(|bytes| self.came_bytes >= bytes)
    }

    /// What the framing of a request announces.
    pub(crate) fn announced(framing: Framing) -> Option<u64> {
        match framing {
            Framing::None => Some(0),
            Framing::Length(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Begins an exchange in place of one that has given back what it held.
    #[inline]
    pub(crate) fn begin(&mut self, state: ExchangeState) {
        debug_assert!(self.output == NO_OUTPUT && self.unread.held_bytes() == 0);
        debug_assert!(self.trailers.is_none() && self.unread_trailers.is_empty());
        debug_assert!(self.end_number.is_none());
        self.state = state;
        self.given_up = None;
        self.told_end = false;
        self.asked_ms = 0;
        self.ended = false;
        self.announced_bytes = None;
        self.came_bytes = 0;
        self.content_follows = false;
        self.content_max_bytes = 0;
    }

    /// The exchange cannot go on: the stream is reset behind this event.
    #[cold]
    pub(crate) fn give_up(&mut self, why: Gone) {
        self.state.stage.give_up();
        self.given_up = Some(why);
    }

    /// Gives back what it holds, and says how many bytes waited to be sent. The number of the
    /// exchange is added to `ended`, if the application wants to hear of its end.
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
