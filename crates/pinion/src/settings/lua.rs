//! The settings with which the Lua scripts of a site are run.

use super::{ScriptAccess, number, operand};
use crate::failure::Failure;
use crate::raw_settings::Low;
use pinion_client::address_policy::PrivateAddresses;
use pinion_lua::script_quotas::Allowance;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The settings with which the scripts of a site are run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LuaSettings {
    /// Their limits.
    pub(crate) allowance: Allowance,
    /// Error pages show the error of the script.
    pub(crate) shows_errors: bool,
}

impl LuaSettings {
    /// Reads the settings of a site.
    ///
    /// # Errors
    /// [`Failure::Usage`] that names the flag and its bounds.
    pub(crate) fn from_low(low: &Low) -> Result<Self, Failure> {
        let allowance = allowance(low, Allowance::default())?;
        Ok(Self { allowance, shows_errors: low.given("dev") })
    }
}

/// `pinion run`.
#[derive(Debug)]
pub(crate) struct Run {
    /// The script.
    pub(crate) script: PathBuf,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Its limits.
    pub(crate) allowance: Allowance,
    /// The servers, secrets and programs that it may use.
    pub(crate) access: ScriptAccess,
    /// The time that it may continue once it is asked to end.
    pub(crate) grace: Duration,
}

/// Reads a command line.
pub(super) fn run(low: &Low) -> Result<Run, Failure> {
    Ok(Run {
        script: operand(low, "SCRIPT")?,
        arguments: low.values("ARGS").map(OsString::from).collect(),
        allowance: allowance(low, Allowance::endless())?,
        // Who starts it can reach the same servers without it.
        access: ScriptAccess::from_low(low, PrivateAddresses::Allowed)?,
        grace: Duration::from_secs(number(low, "grace")?.unwrap_or_default()),
    })
}

/// Reads the written limits; the others have the values of `usual`.
fn allowance(low: &Low, usual: Allowance) -> Result<Allowance, Failure> {
    let mebibytes = |name| -> Result<Option<usize>, Failure> {
        Ok(number::<usize>(low, name)?.map(|mebibytes| mebibytes << 20))
    };
    let asked_vm_bytes = mebibytes("lua-vm-memory")?;
    let vm_memory_bytes = asked_vm_bytes.unwrap_or(usual.vm_memory_bytes);
    let asked_bytes = mebibytes("lua-memory")?;
    let memory_bytes = asked_bytes.unwrap_or(usual.memory_bytes.min(vm_memory_bytes));
    if memory_bytes > vm_memory_bytes {
        return Err(Failure::usage(format!(
            "--lua-memory {}: all requests together have --lua-vm-memory {}; ask for less, or \
             give more there",
            memory_bytes >> 20,
            vm_memory_bytes >> 20
        )));
    }
    Ok(Allowance {
        cpu_ms: number(low, "lua-cpu")?.unwrap_or(usual.cpu_ms),
        memory_bytes,
        is_memory_set: asked_bytes.is_some() || usual.is_memory_set,
        vm_memory_bytes,
        is_vm_memory_set: asked_vm_bytes.is_some() || usual.is_vm_memory_set,
        wall_ms: number::<u64>(low, "lua-time")?.map_or(usual.wall_ms, |seconds| seconds * 1000),
        is_unsafe: low.given("lua-unsafe"),
        ..usual
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::verbs::Verb;

    fn settings(flags: &[(&'static str, &str)]) -> Result<LuaSettings, Failure> {
        let mut low = Low::new(Verb::Serve);
        for (name, value) in flags {
            let values = Some(value).filter(|value| !value.is_empty());
            low.set(name, values.into_iter().map(Into::into).collect());
        }
        LuaSettings::from_low(&low)
    }

    /// The table of flags and the runtime have the same.
    #[test]
    fn without_flags_the_limits_of_the_runtime_hold() {
        let settings = settings(&[]).expect("settings");
        assert_eq!(settings.allowance, Allowance::default());
        assert!(!settings.shows_errors && !settings.allowance.is_unsafe);
    }

    #[test]
    fn each_flag_has_its_unit() {
        let flags = [
            ("lua-cpu", "50"),
            ("lua-memory", "2"),
            ("lua-vm-memory", "3"),
            ("lua-time", "4"),
            ("lua-unsafe", ""),
            ("dev", ""),
        ];
        let settings = settings(&flags).expect("settings");
        let expected = Allowance {
            cpu_ms: 50,
            memory_bytes: 2 << 20,
            is_memory_set: true,
            vm_memory_bytes: 3 << 20,
            is_vm_memory_set: true,
            wall_ms: 4000,
            is_unsafe: true,
            ..Allowance::default()
        };
        assert_eq!(settings.allowance, expected);
        assert!(settings.shows_errors);
    }

    #[test]
    fn a_request_cannot_have_more_than_all_of_them() {
        let reason = |flags: &[_]| settings(flags).err().and_then(|failure| failure.reason());
        let why = reason(&[("lua-memory", "300")]).expect("refused");
        assert!(why.contains("--lua-memory 300") && why.contains("--lua-vm-memory 256"), "{why}");
        assert!(reason(&[("lua-memory", "300"), ("lua-vm-memory", "300")]).is_none());
        assert!(reason(&[("lua-cpu", "0")]).is_some());
    }
}
