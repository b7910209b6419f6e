//! Compiles LuaJIT to a static library, for Linux on the processors that the patches know, and has
//! cargo link it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sources;

/// Processors whose machine code has the seeded hash of keys.
const PROCESSORS: [&str; 2] = ["x86_64", "aarch64"];

/// What LuaJIT is compiled with. Compiled loops of scripts look at the hook only with CHECKHOOK,
/// and only the hook ends a script that is over its budget.
const OPTIONS: [&str; 2] = ["-fPIC", "-DLUAJIT_ENABLE_CHECKHOOK"];

/// Builds the library.
///
/// # Errors
/// It cannot be built for this target, or the sources, the compiler or a patch are missing.
pub(crate) fn build() -> Result<(), String> {
    let target = env::var("TARGET").map_err(|_| "TARGET is not set")?;
    let is_known = PROCESSORS.iter().any(|name| target.starts_with(&format!("{name}-")));
    if !is_known || !target.contains("-linux-") {
        return Err(format!(
            "its patches are for Linux on {}, and not for {target}; build with \
             `--no-default-features --features lua54` there",
            PROCESSORS.join(" and ")
        ));
    }
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let folder = folder.join("luajit");
    if folder.exists() {
        let described = |error| format!("cannot remove {}: {error}", folder.display());
        fs::remove_dir_all(&folder).map_err(described)?;
    }
    let source_folder = sources::prepare(&folder)?.join("src");
    make(&source_folder)?;
    println!("cargo:rustc-link-search=native={}", source_folder.display());
    // As a whole: mlua calls it, and the linker may come to mlua later than to this crate.
    println!("cargo:rustc-link-lib=static:+whole-archive=luajit");
    Ok(())
}

fn make(folder: &Path) -> Result<(), String> {
    let compiler = cc::Build::new().warnings(false).try_get_compiler();
    let compiler = compiler.map_err(|error| error.to_string())?;
    let archiver = cc::Build::new().try_get_archiver().map_err(|error| error.to_string())?;
    let flags = compiler.cflags_env().into_string().map_err(|_| "CFLAGS is not UTF-8")?;
    let compile = format!("{} {flags}", compiler.path().display());
    let mut options = OPTIONS.to_vec();
    let mut make = Command::new("make");
    make.arg("-e").arg("libluajit.a").current_dir(folder);
    if cfg!(debug_assertions) {
        make.env("CCDEBUG", "-g");
        options.extend(["-DLUA_USE_ASSERT", "-DLUA_USE_APICHECK"]);
    }
    make.env("TARGET_SYS", "Linux").env("BUILDMODE", "static");
    make.env("STATIC_CC", &compile).env("TARGET_LD", &compile);
    make.env("TARGET_AR", format!("{} rcus", archiver.get_program().to_string_lossy()));
    make.env("XCFLAGS", options.join(" "));
    println!("cargo:rerun-if-env-changed=HOST_CC");
    let status = make.status().map_err(|error| format!("cannot run make: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("make: {status}")) }
}
