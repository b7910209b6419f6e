//! A file as the content of an answer: a thread reads a piece, the worker sends it, and asks for
//! the next one as soon as there is room for it. Lua sleeps meanwhile.

use std::rc::Rc;

use mlua::Thread as Coroutine;
use pinion_engine::exchange::{ContentRoom, Slice};

use super::requests::{head, wait};
use super::{Outlet, RequestOutcome, Scripts};
use crate::plain::Plain;
use crate::sent_file::Sending;
use crate::task::{TaskId, Waits};
use crate::vm::{ScriptFault, Vm};

impl Scripts {
    /// A coroutine waits until the file that it has opened is sent.
    pub(super) fn send_file(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        coroutine: Coroutine,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        {
            let mut tasks = vm.tasks();
            let Some(task) = tasks.get(id) else { return RequestOutcome::NotOurs };
            let bytes = task.sending.as_ref().and_then(Sending::bytes);
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

    /// A piece has been read.
    pub(super) fn send_piece(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        let result = vm.tasks().get(id).and_then(|task| task.result.take());
        let piece = match result.map(|result| result.outcome) {
            Some(Ok(Plain::Bytes(piece))) if !piece.is_empty() => piece,
            Some(Err(why)) => return self.fail(vm, id, &ScriptFault::Error(why), outlet),
            _ => {
                let why = "the file has become shorter while it was sent".to_owned();
                return self.fail(vm, id, &ScriptFault::Error(why), outlet);
            }
        };
        let room = outlet.exchange.write(Slice::Copied(&piece));
        let now_ms = outlet.exchange.now().monotonic_ms;
        if let Some(task) = vm.tasks().get(id) {
            task.sent_bytes += piece.len() as u64;
            // What is slow here is the client, as long as it takes something.
            task.begin_time(now_ms, task.wall_ms);
            if let Some(sending) = &mut task.sending {
                sending.sent(piece.len() as u64);
            }
            if room != ContentRoom::Free {
                task.waits = Waits::FileRoom;
                task.room_went(now_ms);
                wait(task, outlet.exchange);
                return RequestOutcome::Waits;
            }
        }
        self.send_more(vm, id, outlet)
    }

    /// There is room for another piece, if there is one.
    pub(super) fn send_more(
        &mut self,
        vm: &Rc<Vm>,
        id: TaskId,
        outlet: &mut Outlet<'_, '_>,
    ) -> RequestOutcome {
        match self.read_more(vm, id) {
            Some(Ok(waits)) => {
                if let Some(task) = vm.tasks().get(id) {
                    task.waits = waits;
                    wait(task, outlet.exchange);
                }
                RequestOutcome::Waits
            }
            Some(Err(why)) => self.fail(vm, id, &ScriptFault::Error(why), outlet),
            None => self.go_on(vm, id, true, outlet),
        }
    }

    /// Has the next piece read; none when the file is sent.
    fn read_more(&mut self, vm: &Rc<Vm>, id: TaskId) -> Option<Result<Waits, String>> {
        let next = vm.tasks().get(id).and_then(|task| task.sending.as_ref()?.next())?;
        vm.host().work.job.replace(Some(next));
        Some(self.job(vm, id).map(|_| Waits::File))
    }
}
