//! The encoders of one worker: a limited number, each counted against the memory budget for
//! buffers.

use std::num::NonZeroU16;

use pinion_http::content_coding::Coding;

use super::content_encoder::ResponseEncoder;
use crate::buffer_pool::Pool;
use crate::limits::ENCODERS_MAX;

/// The ID of an encoder of a worker; an exchange without one has none.
pub(crate) type EncoderId = NonZeroU16;

/// The encoders of one worker. The table has no memory until the first is taken.
#[derive(Default)]
pub(crate) struct Encoders {
    places: Vec<EncoderSlot>,
}

#[derive(Default)]
struct EncoderSlot {
    /// Bytes counted for the exchange that has it; 0 if it is free.
    bytes: usize,
    /// Whether content was put in of which not all output has come out.
    holds_content: bool,
    /// The encoder, which is taken out of its entry during work.
    encoder: Option<ResponseEncoder>,
}

impl Encoders {
    /// Takes an encoder for one response; `None` if there are enough of them already, or no memory
    /// but the reserve.
    pub(crate) fn take(&mut self, coding: Coding, pool: &mut Pool) -> Option<EncoderId> {
        let free = self.places.iter().position(|place| place.bytes == 0);
        let index = free.unwrap_or(self.places.len());
        let bytes = ResponseEncoder::bytes_of(coding);
        if index >= ENCODERS_MAX || !pool.reserve_outside_reserve(bytes) {
            return None;
        }
        let Some(encoder) = ResponseEncoder::new(coding) else {
            pool.release(bytes);
            return None;
        };
        if index == self.places.len() {
            self.places.push(EncoderSlot::default());
        }
        self.places[index] = EncoderSlot { bytes, holds_content: false, encoder: Some(encoder) };
        NonZeroU16::new(index as u16 + 1)
    }

    /// Gives back the encoder of an exchange, if it had one.
    #[inline]
    pub(crate) fn give_back(&mut self, id: &mut Option<EncoderId>, pool: &mut Pool) {
        let Some(place) = id.take().and_then(|id| self.place(id)) else { return };
        pool.release(place.bytes);
        *place = EncoderSlot::default();
    }

    /// Returns the bytes of the memory budget for buffers that an exchange holds with its encoder.
    pub(crate) fn bytes(&self, id: Option<EncoderId>) -> usize {
        let place = id.and_then(|id| self.places.get(usize::from(id.get()) - 1));
        place.map_or(0, |place| place.bytes)
    }

    /// Takes an encoder out of its entry, to work with it.
    pub(crate) fn lift(&mut self, id: EncoderId) -> Option<ResponseEncoder> {
        self.place(id)?.encoder.take()
    }

    /// Puts it back; `holds_content` is whether it has content that has not come out.
    pub(crate) fn put_back(
        &mut self,
        id: EncoderId,
        encoder: ResponseEncoder,
        holds_content: bool,
    ) {
        if let Some(place) = self.place(id) {
            debug_assert_eq!(place.bytes, encoder.bytes());
            place.encoder = Some(encoder);
            place.holds_content = holds_content;
        }
    }

    /// Returns whether there is anything to flush.
    pub(crate) fn holds_content(&mut self, id: EncoderId) -> bool {
        self.place(id).is_some_and(|place| place.holds_content)
    }

    /// Returns how many are in use.
    #[cfg(feature = "sim")]
    pub(crate) fn in_use(&self) -> usize {
        self.places.iter().filter(|place| place.bytes > 0).count()
    }

    fn place(&mut self, id: EncoderId) -> Option<&mut EncoderSlot> {
        self.places.get_mut(usize::from(id.get()) - 1)
    }
}
