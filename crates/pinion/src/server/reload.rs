//! The thread that loads the next generation of a site: on SIGHUP, and when a watched source has
//! changed. Loading may take long (a folder is built), so nobody else waits for it, no other site
//! either; what is asked for meanwhile is one more load, however often it is asked.

use super::loader::Loader;
use super::published::{Published, SiteId};
use crate::terminal::counted;
use anyhow::anyhow;
use pinion_engine::residency;
use pinion_engine::server::Control;
use pinion_engine::stderr;
use pinion_lua::program::Program;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

/// Asks for a reload, from any thread.
#[derive(Clone)]
pub(crate) struct Reloader {
    asked: SyncSender<()>,
}

impl Reloader {
    /// Starts the thread of a site. It ends when nobody is left who could ask.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(
        id: SiteId,
        loader: Loader,
        published: Arc<Published>,
        control: Control,
    ) -> io::Result<Self> {
        // Room for one: a load that was asked for and has not begun answers every later wish too.
        let (asked, wishes) = sync_channel(1);
        let run = move || run(id, &wishes, &loader, &published, &control);
        thread::Builder::new().name("reload".to_owned()).spawn(run)?;
        Ok(Self { asked })
    }

    /// Asks.
    pub(crate) fn ask(&self) {
        match self.asked.try_send(()) {
            // Full: the load that waits will see what we saw.
            Ok(()) | Err(TrySendError::Full(())) => {}
            Err(TrySendError::Disconnected(())) => {
                stderr::line(format_args!("pinion: reloading has ended"));
            }
        }
    }
}

fn run(
    id: SiteId,
    wishes: &Receiver<()>,
    loader: &Loader,
    published: &Published,
    control: &Control,
) {
    while wishes.recv().is_ok() {
        // A mistake of ours in one load must not be the end of all later ones.
        let loaded = catch_unwind(AssertUnwindSafe(|| loader.load()));
        let loaded = loaded.unwrap_or_else(|_| Err(anyhow!("loading panicked").into()));
        residency::release_heap();
        match loaded {
            Ok(next) => {
                let paths = counted(next.archive().layout().entry_count(), "path");
                let code = next.program().map_or(0, Program::file_count);
                let code = match code {
                    0 => String::new(),
                    _ => format!(", {} of code", counted(code, "file")),
                };
                if !published.publish(id, next) {
                    // The site was taken out of the configuration meanwhile.
                    continue;
                }
                control.wake_all();
                stderr::line(format_args!(
                    "reloaded {}: {paths}{code}",
                    loader.source().path().display()
                ));
            }
            Err(failure) => {
                let what = loader.source().path().display();
                stderr::line(format_args!("pinion: cannot reload {what}, what was there stays"));
                failure.report();
            }
        }
    }
}
