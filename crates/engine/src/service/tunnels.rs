//! Tunnels of connections that carry many exchanges, when their clients do not get on.

use crate::app::App;
use crate::backend::Slot;
use crate::core::Core;
use crate::gone::Gone;
use crate::service::requests;

/// Resets the tunnels whose clients take nothing of what waits for them: they alone pay for that.
/// Returns false if something else waits, too.
#[cold]
pub(crate) fn stalled<A: App>(app: &mut A, core: &mut Core, slot: Slot) -> bool {
    let (multiplexed, _, buffers) = core.multiplexed(slot);
    let mut stalled = Vec::new();
    multiplexed.find(|id, stream| {
        if stream.state.is_tunnel && buffers.outputs.bytes(stream.output) > 0 {
            stalled.push(id);
        }
        None::<()>
    });
    for id in stalled {
        if let Some(stream) = core.multiplexed(slot).0.stream(id) {
            stream.give_up(Gone::Stalled);
            requests::after_event(app, core, slot, id);
        }
    }
    core.multiplexed(slot).0.queued_bytes() == 0
}
