//! The end of a response whose handler has returned: the text that it has written is sent with the
//! head, or after the content that was sent before.

use std::rc::Rc;

use pinion_engine::exchange::{Exchange, Slice};
use pinion_engine::limits::{CHUNK_BYTES, COPY_BODY_MAX_BYTES, ENCODE_MIN_BYTES};
use pinion_http::prepared_response::{Piece, Prepared, PreparedBody, SharedFields};
use pinion_http::status::{StatusContent, status_content};

use super::requests::head;
use super::{Outlet, RequestOutcome, Scripts};
use crate::limits::MANY_PIECES;
use crate::task::{RequestTask, TaskId};
use crate::vm::{ScriptFault, Unsent, Vm, in_memory};

impl Scripts {
    /// Finishes the response of a handler that has returned.
    pub(super) fn finish(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        unsent: &Unsent,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        let text = match unsent {
            Unsent::Text(text) => Some(text.as_bytes()),
            Unsent::Pieces(_) => None,
        };
        let mut pieces = self.pieces.take();
        pieces.extend(text.as_deref().map(Piece::Bytes));
        if let Unsent::Pieces(written) = unsent
            && let Err(why) = written.append_to(vm.lua(), &mut pieces)
        {
            return self.fail(vm, id, &ScriptFault::Error(why), outlet);
        }
        let mut tasks = vm.tasks();
        let Some(task) = tasks.request(id) else { return RequestOutcome::NotOurs };
        let status = task.response.status;
        let has_content = status_content(status) == StatusContent::Any;
        // A sent file has the announced length.
        if has_content && task.sending.is_none() && task.response.is_page() {
            pieces.extend(Some(outlet.page_end).filter(|end| !end.is_empty()).map(Piece::Bytes));
        }
        let bytes = pieces.iter().map(Piece::bytes).sum();
        let body_bytes = task.sent_bytes + bytes;
        let is_long = bytes >= ENCODE_MIN_BYTES;
        if !task.has_begun && task.is_compressed && has_content && is_long {
            head(task, Some(bytes), outlet, &mut self.lines);
        }
        if task.has_begun {
            write(outlet.exchange, &pieces, &mut self.gathered);
            outlet.exchange.end(std::iter::empty());
        } else {
            self.prepare(task, &pieces, outlet);
        }
        drop(tasks);
        self.pieces.give_back(pieces, MANY_PIECES);
        self.end(vm, id, outlet);
        RequestOutcome::Answered { status, body_bytes }
    }

    /// Sends the whole response.
    fn prepare(&mut self, task: &RequestTask, pieces: &[Piece<'_>], outlet: &mut Outlet<'_, '_>) {
        task.response.head_lines(outlet.defaults, &mut self.lines);
        let status = task.response.status;
        let bytes = pieces.iter().map(Piece::bytes).sum();
        let content = status_content(status);
        let content_length = match content {
            StatusContent::None => None,
            StatusContent::Empty => Some(0),
            StatusContent::Any => Some(bytes),
        };
        let body = match pieces {
            _ if content != StatusContent::Any => PreparedBody::None,
            [Piece::Bytes(only)] => PreparedBody::Bytes(only),
            // Short content is copied into one buffer with the head.
            _ if bytes <= COPY_BODY_MAX_BYTES => {
                self.gathered.clear();
                pieces.iter().for_each(|piece| self.gathered.extend_from_slice(in_memory(piece)));
                PreparedBody::Bytes(&self.gathered)
            }
            _ => PreparedBody::Archive(pieces),
        };
        let response = Prepared {
            shared: SharedFields::h1(&self.lines),
            content_length,
            body,
            ..Prepared::empty(status)
        };
        outlet.exchange.prepared(&response, None);
    }
}

/// Writes pieces after a head, short ones together: each write may become a chunk or a frame.
fn write(exchange: &mut Exchange<'_>, pieces: &[Piece<'_>], gathered: &mut Vec<u8>) {
    let mut send = |bytes: &[u8]| {
        if !bytes.is_empty() {
            exchange.write(Slice::Copied(bytes));
        }
    };
    gathered.clear();
    for bytes in pieces.iter().map(in_memory) {
        if gathered.len() + bytes.len() > CHUNK_BYTES {
            send(gathered);
            gathered.clear();
        }
        if bytes.len() > CHUNK_BYTES {
            send(bytes);
        } else {
            gathered.extend_from_slice(bytes);
        }
    }
    send(gathered);
}
