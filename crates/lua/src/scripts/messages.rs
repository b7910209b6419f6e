//! Messages from worker to worker, and results of the threads beside them.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use pinion_engine::app::Message;

use super::Scripts;
use super::standalone::NothingBefore;
use crate::lua_job::LuaJobDone;
use crate::message::Letter;
use crate::site::ScriptSite;
use crate::store_access::StoreJobEnd;
use crate::task::WorkKind;
use crate::vm::Vm;

/// A message for the listeners of its channel, in each worker.
struct SentMessage {
    site: ScriptSite,
    letter: Arc<Letter>,
}

impl Scripts {
    /// Sends a message to all workers, this one too.
    pub(super) fn send(&mut self, vm: &Rc<Vm>, letter: Letter) {
        let letter = Arc::new(letter);
        for worker in 0..self.poster.workers() {
            let sent = SentMessage { site: vm.site(), letter: Arc::clone(&letter) };
            if self.poster.post_to_app(worker, Box::new(sent)).is_err() {
                let channel = &letter.channel;
                self.tell_of(
                    "pinion.send",
                    &format!(
                        "a message on the channel {channel:?} is lost: too many messages wait for \
                     worker {worker}; send fewer, or do less for each of them"
                    ),
                );
            }
        }
    }

    /// Handles a message that was posted to this worker.
    pub(super) fn take_message(&mut self, message: Message) {
        let message = match message.downcast::<LuaJobDone>() {
            Ok(done) => return self.job_is_done(*done),
            Err(other) => other,
        };
        let message = match message.downcast::<StoreJobEnd>() {
            Ok(end) => return self.store_job_has_ended(*end),
            Err(other) => other,
        };
        if message.is::<NothingBefore>() {
            return self.is_quiet();
        }
        let Ok(sent) = message.downcast::<SentMessage>() else { return };
        let hears = |vm: &Weak<Vm>| vm.upgrade().filter(|vm| vm.site() == sent.site);
        let vms: Vec<_> = self.background.current.iter().filter_map(hears).collect();
        for vm in vms {
            vm.host().deliver(&sent.letter);
            self.settle(&vm);
            let work = vm.host().work.channels.borrow().get(&*sent.letter.channel).cloned();
            let Some(work) = work else { continue };
            let letter = Some(Arc::clone(&sent.letter));
            let kind = WorkKind::Listener;
            match vm.host().spawn(vm.lua(), work, kind, letter) {
                Ok((Some(_), _)) => {}
                Ok((None, why)) => self.tell_of(kind.name(), &why.unwrap_or_default()),
                Err(error) => self.tell_of(kind.name(), &error.to_string()),
            }
            self.settle(&vm);
        }
    }
}
