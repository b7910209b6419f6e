//! Messages from worker to worker, and results of the threads beside them.

use std::rc::{Rc, Weak};
use std::sync::Arc;

use pinion_engine::app::Message;

use super::Scripts;
use super::command_line_script::NothingBefore;
use crate::channel_message::ChannelMessage;
use crate::lua_job::LuaJobDone;
use crate::shared_site_state::ScriptSite;
use crate::store_access::StoreJobEnd;
use crate::task::BackgroundTaskKind;
use crate::vm::Vm;

/// A message for the listeners of its channel, in each worker.
struct SentMessage {
    site: ScriptSite,
    message: Arc<ChannelMessage>,
}

impl Scripts {
    /// Sends a message to all workers, this one too.
    pub(super) fn send(&mut self, vm: &Rc<Vm>, message: ChannelMessage) {
        let message = Arc::new(message);
        for worker in 0..self.poster.workers() {
            let sent = SentMessage { site: vm.site(), message: Arc::clone(&message) };
            if self.poster.post_to_app(worker, Box::new(sent)).is_err() {
                let channel = &message.channel;
                self.log_background(
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
            vm.host().deliver(&sent.message);
            self.settle(&vm);
            let work = vm.host().work.channels.borrow().get(&*sent.message.channel).cloned();
            if let Some(work) = work {
                let message = Some(Arc::clone(&sent.message));
                self.start_background(&vm, work, BackgroundTaskKind::Listener, message);
            }
        }
    }
}
