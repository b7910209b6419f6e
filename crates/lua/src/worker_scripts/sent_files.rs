//! A file as the content of a response: a thread reads a piece, the worker sends it, and requests
//! the next one as soon as there is room for it. Lua sleeps meanwhile.

use std::rc::Rc;

use mlua::Thread as Coroutine;
use pinion_engine::exchange::{ContentRoom, Slice};

use super::requests::{head, wait};
use super::{Outlet, RequestOutcome, Scripts};
use crate::copied_value::CopiedValue;
use crate::sent_file::FileTransfer;
use crate::task::{TaskId, Waits};
use crate::vm::{ScriptFault, Vm};

impl Scripts {
    /// Suspends a coroutine until the file that it has opened is sent.
    pub(super) fn send_file(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        coroutine: Coroutine,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        {
            let mut tasks = vm.tasks();
            let Some(task) = tasks.request(id) else { return RequestOutcome::NotOurs };
            let bytes = task.sending.as_ref().and_then(FileTransfer::bytes);
            if !task.has_begun {
                head(task, bytes, outlet, &mut self.lines);
            }
        }
        if outlet.exchange.is_head_only() {
            return self.run(vm, id, coroutine, true, outlet);
        }
        match self.read_more(vm, id) {
            Some(Ok(waits)) => self.suspend(vm, id, coroutine, waits, outlet),
            Some(Err(why)) => self.fail(vm, id, &ScriptFault::Error(why), outlet),
            None => self.run(vm, id, coroutine, true, outlet),
        }
    }

    /// Sends a piece that has been read.
    pub(super) fn send_piece(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        let result = vm.tasks().request(id).and_then(|task| task.state.result.take());
        let piece = match result.map(|result| result.outcome) {
            Some(Ok(CopiedValue::Bytes(piece))) if !piece.is_empty() => piece,
            Some(Err(why)) => return self.fail(vm, id, &ScriptFault::Error(why), outlet),
            _ => {
                let why = "the file has become shorter while it was sent".to_owned();
                return self.fail(vm, id, &ScriptFault::Error(why), outlet);
            }
        };
        let room = outlet.exchange.write(Slice::Copied(&piece));
        let now_ms = outlet.exchange.now().monotonic_ms;
        if let Some(task) = vm.tasks().request(id) {
            task.sent_bytes += piece.len() as u64;
            // It is the client that is slow here, and its time begins anew while it reads.
            task.begin_time(now_ms, task.wall_ms);
            if let Some(sending) = &mut task.sending {
                sending.sent(piece.len() as u64);
            }
            if room != ContentRoom::Free {
                task.state.waits = Waits::FileRoom;
                task.room_went(now_ms);
                wait(task, outlet.exchange);
                return RequestOutcome::Waits;
            }
        }
        self.send_more(vm, id, outlet)
    }

    /// Sends another piece after the output queue has room, if there is one.
    pub(super) fn send_more(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        match self.read_more(vm, id) {
            Some(Ok(waits)) => {
                if let Some(task) = vm.tasks().request(id) {
                    task.state.waits = waits;
                    wait(task, outlet.exchange);
                }
                RequestOutcome::Waits
            }
            Some(Err(why)) => self.fail(vm, id, &ScriptFault::Error(why), outlet),
            None => self.go_on(vm, id, true, outlet),
        }
    }

    /// Begins to read the next piece; returns none when the file is sent.
    fn read_more(&mut self, vm: &Rc<Vm>, id: TaskId) -> Option<Result<Waits, String>> {
        let next = vm.tasks().request(id).and_then(|task| task.sending.as_ref()?.next())?;
        vm.host().work.job.replace(Some(next));
        Some(self.job(vm, id).map(|_| Waits::File))
    }
}
