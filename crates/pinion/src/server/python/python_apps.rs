//! Which processes each Python application has. A reload that changes the settings of an
//! application starts others beside them, and the old ones end when they have no requests any more.

use super::interpreter;
use crate::failure::Failure;
use crate::plan::PlannedSite;
use crate::server::php::limits::{UNUSED_MAX, UNUSED_PAUSE};
use crate::server::php::private_folder::PrivateFolder;
use crate::settings::{PythonMount, PythonSettings};
use anyhow::{Context as _, anyhow};
use pinion_gateway::python::python_app::PythonApp;
use pinion_programs::supervisor_link::ProgramDescriptors;
use pinion_python::command_line::ApplicationCommand;
use pinion_python::program::PROGRAM;
use pinion_spawner::start_table::{ProgramKind, ProgramStart};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::Write as _;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

/// How long the processes have for their requests after a stop, in milliseconds.
const GRACE_MS: u32 = 30_000;

/// The Python applications of all sites. A copy has the same folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct PythonApps {
    folder: Arc<OnceLock<PrivateFolder>>,
    /// The program that the processes execute.
    program: Arc<OnceLock<Arc<OwnedFd>>>,
    apps: Vec<Arc<RunningApp>>,
    /// How many processes there have been: no two have the same name.
    count: u32,
}

/// An application with its processes.
#[derive(Debug)]
pub(crate) struct RunningApp {
    settings: PythonSettings,
    app: Arc<PythonApp>,
    interpreter: PathBuf,
    starts: Vec<(ProgramStart, ProgramDescriptors)>,
}

impl PythonApps {
    /// Returns the applications for these sites: those that there are if their settings are the
    /// same, and new ones. `programs` are those with names that are taken.
    ///
    /// # Errors
    /// There is no Python, or it cannot run as asked.
    pub(crate) fn next(
        &self,
        sites: &[PlannedSite],
        programs: &[ProgramStart],
    ) -> Result<Self, Failure> {
        let mut next = Self { apps: Vec::new(), ..self.clone() };
        for mount in sites.iter().flat_map(|site| site.settings.mounts.python()) {
            let is_it = |app: &&Arc<RunningApp>| app.settings == mount.settings;
            let known = self.apps.iter().chain(&next.apps).find(is_it).cloned();
            let app = match known {
                Some(app) => app,
                None => Arc::new(next.start(mount, programs)?),
            };
            // The mount was made for this plan.
            let _first = mount.app.set(Arc::clone(&app.app));
            if !next.apps.iter().any(|known| Arc::ptr_eq(known, &app)) {
                next.apps.push(app);
            }
        }
        Ok(next)
    }

    /// Returns the programs to keep running: these, and those of other applications.
    pub(crate) fn starts_with(
        &self,
        programs: Vec<ProgramStart>,
        others: &[Arc<RunningApp>],
    ) -> Vec<ProgramStart> {
        let starts = self.apps.iter().chain(others).flat_map(|app| &app.starts);
        programs.into_iter().chain(starts.map(|(start, _)| start.clone())).collect()
    }

    /// Returns the descriptors of the processes, by their names.
    pub(crate) fn descriptors(
        &self,
        others: &[Arc<RunningApp>],
    ) -> BTreeMap<String, ProgramDescriptors> {
        let starts = self.apps.iter().chain(others).flat_map(|app| &app.starts);
        starts.map(|(start, descriptors)| (start.name.clone(), descriptors.clone())).collect()
    }

    /// Returns those that `next` has not.
    pub(crate) fn left_out_of(&self, next: &Self) -> Vec<Arc<RunningApp>> {
        let is_left = |app: &&Arc<RunningApp>| !next.apps.iter().any(|one| Arc::ptr_eq(one, app));
        self.apps.iter().filter(is_left).cloned().collect()
    }

    /// Whether a program is a process of one of them.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.apps.iter().flat_map(|app| &app.starts).any(|(start, _)| start.name == name)
    }

    /// Returns a line about each for the start.
    pub(crate) fn in_words(&self) -> impl Iterator<Item = String> {
        self.apps.iter().map(|app| app.in_words())
    }

    /// Removes all files. Nothing of it is used any more.
    pub(crate) fn remove_files(&self) {
        if let Some(folder) = self.folder.get() {
            folder.remove();
        }
    }

    /// Makes an application whose processes are not started yet.
    fn start(
        &mut self,
        mount: &PythonMount,
        programs: &[ProgramStart],
    ) -> Result<RunningApp, Failure> {
        let settings = &mount.settings;
        let interpreter = interpreter::find(settings.python.as_deref(), &settings.folder)?;
        let program = self.program()?;
        let number = |count: usize| {
            u16::try_from(count).ok().and_then(NonZeroU16::new).unwrap_or(NonZeroU16::MIN)
        };
        let command = ApplicationCommand {
            interface: settings.interface,
            application: settings.application.clone().into(),
            folder: settings.folder.clone(),
            threads: number(settings.threads),
            processes: number(settings.processes),
            is_factory: settings.is_factory,
        };
        let app = Arc::new(settings.app());
        let mut starts = Vec::new();
        for _ in 0..settings.processes {
            let name = self.free_name(programs);
            let (socket, listener) = self.listener(&name)?;
            let start = ProgramStart {
                kind: ProgramKind::Supervised,
                arguments: command.arguments(),
                environment: settings.environment.clone(),
                identity: settings.identity.clone(),
                working_directory: settings.folder.clone(),
                grace_ms: GRACE_MS,
                ..ProgramStart::new(&name, &interpreter)
            };
            app.add_process(socket, None);
            let descriptors =
                ProgramDescriptors { listener: Arc::new(listener), file: Arc::clone(&program) };
            starts.push((start, descriptors));
        }
        Ok(RunningApp { settings: settings.clone(), app, interpreter, starts })
    }

    fn free_name(&mut self, programs: &[ProgramStart]) -> String {
        loop {
            self.count += 1;
            let name = match self.count {
                1 => "python".to_owned(),
                number => format!("python-{number}"),
            };
            if programs.iter().all(|program| program.name != name) {
                return name;
            }
        }
    }

    /// Makes the socket on which a process accepts connections. It stays when the process ends, so
    /// requests wait for the next one.
    fn listener(&self, name: &str) -> Result<(PathBuf, OwnedFd), Failure> {
        if self.folder.get().is_none() {
            // This thread alone makes it.
            let _made = self.folder.set(PrivateFolder::new()?);
        }
        let folder = self.folder.get().context("there is no folder for Python")?.path();
        let path = folder.join(format!("{name}.sock"));
        let made = UnixListener::bind(&path).and_then(|listener| {
            // Only this user connects. The processes have the socket already.
            std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
            Ok(listener)
        });
        let listener =
            made.map_err(|error| anyhow!("cannot listen on {}: {error}", path.display()))?;
        Ok((path, listener.into()))
    }

    /// Returns the program that the processes execute: a file without a name that nothing can
    /// change.
    fn program(&self) -> Result<Arc<OwnedFd>, Failure> {
        if let Some(program) = self.program.get() {
            return Ok(Arc::clone(program));
        }
        let made = (|| -> std::io::Result<OwnedFd> {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let mut file = File::from(memfd_create("pinion-python", flags)?);
            file.write_all(PROGRAM.as_bytes())?;
            let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
            fcntl_add_seals(&file, seals)?;
            Ok(file.into())
        })();
        let made = made.context("cannot make the file of the Python program")?;
        Ok(Arc::clone(self.program.get_or_init(|| Arc::new(made))))
    }
}

impl RunningApp {
    /// Waits until requests that were sent to it have ended, or for a limited time.
    pub(crate) fn wait_until_unused(&self) {
        let begin = Instant::now();
        while self.app.is_used() && begin.elapsed() < UNUSED_MAX {
            thread::sleep(UNUSED_PAUSE);
        }
    }

    fn in_words(&self) -> String {
        let Self { settings, interpreter, .. } = self;
        format!(
            "Python application {} in {} ({}), {}",
            settings.application,
            settings.folder.display(),
            interpreter.display(),
            match (settings.processes, settings.threads) {
                (1, 1) => "1 process with 1 thread".to_owned(),
                (1, threads) => format!("1 process with {threads} threads"),
                (processes, 1) => {
                    format!("{processes} processes, which share no global variables")
                }
                (processes, threads) => format!(
                    "{processes} processes with {threads} threads each, which share no global \
                     variables"
                ),
            }
        )
    }
}
