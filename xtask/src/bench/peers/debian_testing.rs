//! Servers of Debian testing, unpacked with the libraries that they need.
//!
//! Testing has the newest releases whose dependencies can all be installed. Stable is up to two
//! years older, and unstable may lack a library for days.
//!
//! apt works with its own lists, its own empty record of installed packages and its own cache, so
//! it changes nothing on the system and needs no rights. The programs need the C library of
//! testing. A script for each program starts it with the dynamic loader of that library.

use crate::process;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The distribution.
const SUITE: &str = "testing";

/// The packages with the programs. The others are their libraries and files.
const WANTED: &[&str] = &["haproxy", "lighttpd", "lighttpd-mod-openssl", "nginx"];

/// Each program with the arguments that its script adds. `$root` is the folder of the unpacked
/// files.
const PROGRAMS: &[(&str, &str)] = &[
    ("haproxy", ""),
    // lighttpd looks for its modules below `/usr`.
    ("lighttpd", r#" -m "$root/usr/lib/lighttpd""#),
    ("nginx", ""),
];

/// The keys of Debian, where every Debian system has them.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The folder of the unpacked packages.
pub(super) struct Packages {
    folder: PathBuf,
}

/// A package of the distribution.
#[derive(Debug, PartialEq)]
struct Package {
    name: String,
    version: String,
}

impl Packages {
    pub(super) fn of(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the script that starts a program, if the packages are installed.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let program = self.folder.join("bin").join(name);
        program.is_file().then_some(program)
    }

    /// Returns the path of a file of a package, whose path on a system is `/` and `name`.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Returns the version of an installed package.
    pub(super) fn version(&self, name: &str) -> Option<String> {
        let record = fs::read_to_string(self.record()).ok()?;
        let mut packages = record.lines().filter_map(|line| line.split_once(' '));
        packages.find(|(package, _)| *package == name).map(|(_, version)| version.to_owned())
    }

    /// Installs the packages if they are not there. With `update`, replaces them by those that the
    /// distribution has now.
    pub(super) fn install(&self, update: bool) -> Result<()> {
        let is_there = WANTED.iter().all(|name| self.version(name).is_some());
        if is_there && !update {
            return Ok(());
        }
        if process::find("apt-get").is_none() || process::find("dpkg-deb").is_none() {
            bail!(
                "they are packages of Debian, and apt-get or dpkg-deb is missing: run this on a \
                 Debian system"
            );
        }
        let new = Self::of(self.folder.with_extension("new"));
        new.make()?;
        // The older ones stay until the newer ones are complete.
        remove(&self.folder)?;
        fs::rename(&new.folder, &self.folder).with_context(|| self.folder.display().to_string())
    }

    /// Makes the folder again.
    fn make(&self) -> Result<()> {
        remove(&self.folder)?;
        println!("  reading the list of packages of Debian {SUITE}");
        self.prepare_apt()?;
        // Without this option, apt-get succeeds when it cannot reach the mirror.
        let mut update = self.apt();
        update.args(["-o", "APT::Update::Error-Mode=any", "update"]);
        process::output(&mut update).with_context(|| {
            format!(
                "cannot read the list of packages of Debian {SUITE}: check the network and the \
                 mirror in the sources of apt"
            )
        })?;
        let packages = self.resolve()?;
        self.download(&packages)?;
        self.unpack()?;
        self.write_scripts()?;
        let lines =
            packages.iter().map(|package| format!("{} {}\n", package.name, package.version));
        fs::write(self.record(), lines.collect::<String>())?;
        Ok(())
    }

    fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    fn record(&self) -> PathBuf {
        self.folder.join("packages.txt")
    }

    /// Creates the folders and the files that apt reads.
    fn prepare_apt(&self) -> Result<()> {
        let apt = self.folder.join("apt");
        for name in ["state/lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(apt.join(name)).with_context(|| apt.display().to_string())?;
        }
        let targets = process::output(Command::new("apt-get").args([
            "indextargets",
            "--format",
            "$(REPO_URI) $(RELEASE) $(COMPONENT)",
            "Created-By: Packages",
        ]))?;
        let mirror = mirror(&targets).context(
            "the sources of apt name no mirror of Debian: add one with the component main to \
             /etc/apt/sources.list",
        )?;
        let keys =
            if Path::new(KEYS).exists() { format!("[signed-by={KEYS}] ") } else { String::new() };
        fs::write(apt.join("sources.list"), format!("deb {keys}{mirror} {SUITE} main\n"))?;
        fs::write(apt.join("status"), "")?;
        Ok(())
    }

    /// Returns apt-get with its own files.
    fn apt(&self) -> Command {
        let apt = self.folder.join("apt");
        let mut command = Command::new("apt-get");
        for (option, name) in [
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::State", "state"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
        ] {
            command.arg("-o").arg(format!("{option}={}", apt.join(name).display()));
        }
        for option in [
            "Dir::Etc::sourceparts=/dev/null",
            "Dir::Etc::preferences=/dev/null",
            "Dir::Etc::preferencesparts=/dev/null",
            "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
            // Its own user may not write into the folder.
            "APT::Sandbox::User=root",
        ] {
            command.args(["-o", option]);
        }
        command
    }

    /// Returns the packages that the programs need at run time.
    fn resolve(&self) -> Result<Vec<Package>> {
        let mut command = self.apt();
        command.args(["--simulate", "--no-install-recommends", "install"]).args(WANTED);
        let packages = needed(&process::output(&mut command)?);
        let missing = WANTED.iter().find(|name| !packages.iter().any(|it| it.name == **name));
        if let Some(missing) = missing {
            bail!("Debian {SUITE} has no package {missing} that can be installed");
        }
        Ok(packages)
    }

    fn download(&self, packages: &[Package]) -> Result<()> {
        let programs: Vec<String> = packages
            .iter()
            .filter(|package| WANTED.contains(&package.name.as_str()))
            .map(|package| format!("{} {}", package.name, package.version))
            .collect();
        let others = packages.len() - programs.len();
        println!("  downloading {} and {others} packages that they need", programs.join(", "));
        let mut command = self.apt();
        command.args(["--quiet=2", "download"]).args(packages.iter().map(|it| &it.name));
        process::output(command.current_dir(self.folder.join("apt/packages")))?;
        Ok(())
    }

    fn unpack(&self) -> Result<()> {
        println!("  unpacking them");
        for package in fs::read_dir(self.folder.join("apt/packages"))? {
            let mut command = Command::new("dpkg-deb");
            process::output(command.arg("--extract").arg(package?.path()).arg(self.root()))?;
        }
        fs::remove_dir_all(self.folder.join("apt"))?;
        Ok(())
    }

    /// Writes a script for each program, which finds everything in its own folder.
    fn write_scripts(&self) -> Result<()> {
        let loader = loader(&self.root().join("usr/lib"))?;
        let folder = self.folder.join("bin");
        fs::create_dir_all(&folder)?;
        for (name, arguments) in PROGRAMS {
            let script = folder.join(name);
            fs::write(&script, start_script(name, arguments, &loader))?;
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }
}

/// Removes a folder if it exists.
fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    Ok(())
}

/// Returns the text of a script that starts a program of the unpacked packages.
fn start_script(name: &str, arguments: &str, loader: &str) -> String {
    let libraries = loader.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!(
        "#!/bin/sh\n\
         root=\"${{0%/*}}/../root\"\n\
         exec \"$root/usr/lib/{loader}\" --library-path \"$root/usr/lib/{libraries}\" \\\n    \
         \"$root/usr/sbin/{name}\"{arguments} \"$@\"\n"
    )
}

/// Returns the dynamic loader, relative to the folder of the libraries: each architecture has its
/// own folder and its own name for it.
fn loader(libraries: &Path) -> Result<String> {
    for folder in fs::read_dir(libraries).with_context(|| libraries.display().to_string())? {
        let Ok(entries) = fs::read_dir(folder?.path()) else { continue };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("ld-linux") {
                return Ok(path.strip_prefix(libraries)?.display().to_string());
            }
        }
    }
    bail!("the package libc6 of Debian {SUITE} has no dynamic loader below {}", libraries.display())
}

/// Returns the mirror of Debian in the targets of apt: lines of an address, a distribution and a
/// component. Distributions with a dash or a slash, such as those of security updates, have other
/// addresses.
fn mirror(targets: &str) -> Option<&str> {
    targets.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (address, suite, component) = (words.next()?, words.next()?, words.next()?);
        (component == "main" && !suite.contains(['-', '/'])).then_some(address)
    })
}

/// Returns the packages of a simulated installation that a program needs at run time: the wanted
/// ones with their files, and libraries. The others set up a system.
fn needed(simulation: &str) -> Vec<Package> {
    let is_needed = |name: &str| {
        ["lib", "zlib"].iter().chain(WANTED).any(|beginning| name.starts_with(beginning))
    };
    let package = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(" (")?;
        let version = rest.split(' ').next()?.to_owned();
        is_needed(name).then(|| Package { name: name.to_owned(), version })
    };
    simulation.lines().filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_that_of_the_main_suite() {
        let targets = "http://a/security/ bookworm-security main\n\
                       http://b/debian/ bookworm contrib\n\
                       http://b/debian/ bookworm main\n";
        assert_eq!(mirror(targets), Some("http://b/debian/"));
        assert_eq!(mirror("http://c/ bookworm-updates main\n"), None);
        assert_eq!(mirror(""), None);
    }

    #[test]
    fn libraries_and_program_packages_are_selected() {
        let simulation = "Reading package lists...\n\
            Inst libc6 (2.43-7 Debian:testing [amd64]) []\n\
            Inst adduser (3.159 Debian:testing [all])\n\
            Inst zlib1g (1:1.3 Debian:testing [amd64])\n\
            Inst nginx-common (1.30.6-2 Debian:testing [all])\n\
            Conf libc6 (2.43-7 Debian:testing [amd64])\n";
        let found = needed(simulation);
        let names: Vec<&str> = found.iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["libc6", "zlib1g", "nginx-common"]);
        assert_eq!(found[1].version, "1:1.3");
    }

    #[test]
    fn start_scripts_use_their_own_loader_and_libraries() {
        let script = start_script("nginx", " -x", "arch-linux-gnu/ld-linux.so.2");
        let expected = "exec \"$root/usr/lib/arch-linux-gnu/ld-linux.so.2\" --library-path \
                        \"$root/usr/lib/arch-linux-gnu\" \\\n    \
                        \"$root/usr/sbin/nginx\" -x \"$@\"\n";
        assert!(script.ends_with(expected), "{script}");
    }
}
