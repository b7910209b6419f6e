//! The packages of `cargo xtask dist`, unpacked as docs/installing.md describes.

use pinion_tests::binary::{profile_folder, source_root};
use pinion_tests::external_programs::{output, program, stdout};
use pinion_tests::server::Start;
use pinion_tests::temporary_folder::Folder;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files in every package.
const FILES: [&str; 19] = [
    "bin/pinion",
    "lib/systemd/system/pinion-apps.service",
    "lib/systemd/system/pinion.service",
    "lib/systemd/system/pinion.socket",
    "share/bash-completion/completions/pinion",
    "share/doc/pinion/CHANGELOG.md",
    "share/doc/pinion/Containerfile",
    "share/doc/pinion/LICENSE-APACHE",
    "share/doc/pinion/LICENSE-MIT",
    "share/doc/pinion/README.md",
    "share/doc/pinion/RUST-LIBRARY-LICENSES.html",
    "share/doc/pinion/THIRD-PARTY-LICENSES",
    "share/doc/pinion/docs/installing.md",
    "share/doc/pinion/pinion.cdx.json",
    "share/doc/pinion/pinion.logrotate",
    "share/fish/vendor_completions.d/pinion.fish",
    "share/man/man1/pinion-serve.1",
    "share/man/man5/pinion.toml.5",
    "share/zsh/site-functions/_pinion",
];

fn dist() -> PathBuf {
    let target = profile_folder();
    target.parent().expect("a profile's folder lies in the target folder").join("packages")
}

/// Returns the packages for this machine, each with whether its program is static.
fn packages() -> [(PathBuf, bool); 2] {
    let manifest = fs::read_to_string(source_root().join("Cargo.toml")).expect("the workspace");
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = "));
    let version = version.expect("a version").trim_matches('"');
    let name = format!("pinion-{version}-{}-linux", std::env::consts::ARCH);
    [("", false), ("-static", true)].map(|(kind, is_static)| {
        let path = dist().join(format!("{name}{kind}.tar.gz"));
        assert!(path.is_file(), "{} is missing; cargo xtask dist makes it", path.display());
        (path, is_static)
    })
}

fn unpacked(package: &Path) -> Folder {
    let prefix = Folder::new("package");
    let mut tar = program("tar", "tar");
    tar.arg("-xzf").arg(package).arg("-C").arg(prefix.path()).arg("--strip-components=1");
    stdout(&mut tar);
    prefix
}

#[test]
fn the_digests_are_those_of_the_packages() {
    let mut check = program("sha256sum", "coreutils");
    let output = stdout(check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(dist()));
    let output = String::from_utf8(output).expect("text");
    for (package, _) in packages() {
        let name = package.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(output.contains(&format!("{name}: OK\n")), "{output}");
    }
}

#[test]
fn packages_contain_every_installed_file() {
    for (package, is_static) in packages() {
        let prefix = unpacked(&package);
        for path in FILES {
            let size =
                fs::metadata(prefix.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(size.len() > 0, "{path}");
        }
        assert_eq!(prefix.join("share/doc/pinion/C-LIBRARY-LICENSES").exists(), is_static);
        let said = |words: &[&str]| stdout(Command::new(prefix.join("bin/pinion")).args(words));
        let list = fs::read(prefix.join("share/doc/pinion/pinion.cdx.json")).expect("the list");
        assert!(said(&["version", "--sbom", "--json"]) == list);
        let version = String::from_utf8(said(&["version"])).expect("text");
        assert!(version.contains("\nmade of "), "{version}");
        assert!(version.contains("\ncompiled by rustc 1."), "{version}");
        // There is a page for each verb, and one each for the program and its file.
        let verbs = String::from_utf8(said(&["--help"])).expect("text");
        let verbs = verbs.lines().skip_while(|line| *line != "Commands:").skip(1);
        let verbs = verbs.take_while(|line| !line.is_empty());
        let pages = fs::read_dir(prefix.join("share/man/man1")).expect("pages").count();
        assert_eq!(pages, verbs.count() + 1);
        let page = fs::read(prefix.join("share/man/man1/pinion-serve.1")).expect("a page");
        assert!(said(&["man", "serve"]) == page);
    }
}

#[test]
fn the_packaged_program_does_not_depend_on_the_build_machine() {
    for (package, is_static) in packages() {
        let prefix = unpacked(&package);
        let path = prefix.join("bin/pinion");
        let ldd = output(program("ldd", "libc-bin").arg(&path));
        let needs = String::from_utf8_lossy(&ldd.stdout).contains("libc.so");
        assert_eq!(needs, !is_static, "{ldd:?}");
        let program = fs::read(&path).expect("the program");
        let root = source_root().display().to_string();
        for part in [root.as_str(), "registry/src/"] {
            let is_named = program.windows(part.len()).any(|bytes| bytes == part.as_bytes());
            assert!(!is_named, "{}: {part}", package.display());
        }
        let site = source_root().join("examples/site");
        let server = Start::site(&site).flags(&["--workers", "1"]);
        let server = server.under(program_alone()).found_at(&path).start();
        assert_eq!(server.get("/about").status, 200);
        let resident_bytes = server.memory_bytes("VmRSS");
        assert!(resident_bytes <= IDLE_MAX_BYTES, "{resident_bytes} bytes");
        server.stop();
    }
}

/// The most memory of an idle release with one worker, private and shared pages together
/// (docs/benchmarking.md, "Memory").
const IDLE_MAX_BYTES: u64 = 8 << 20;

/// Returns a command that starts a program without environment variables.
fn program_alone() -> Command {
    let mut env = program("env", "coreutils");
    env.arg("--ignore-environment");
    env
}
