//! Encodes and decodes rows of the table, which the server sends to the spawner.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::process::Signal;

use crate::byte_codec::{ByteReader, ByteWriter};
use crate::limits::{ARGUMENTS_MAX, CGI_NAMES_MAX, ENVIRONMENT_MAX, GROUPS_MAX};
use crate::start_table::{Identity, ProgramKind, ProgramStart, RESOURCES, ResourceLimit};

/// The tag of an absent value.
const ABSENT: u8 = 0;
/// The tag before a present value.
const PRESENT: u8 = 1;

const ON_DEMAND: u8 = 0;
const SUPERVISED: u8 = 1;
const CGI: u8 = 2;

/// Encodes a row. Returns `None` if a text or a list is longer than 65535.
pub(crate) fn encode_start(start: &ProgramStart) -> Option<Vec<u8>> {
    let mut bytes = ByteWriter::default();
    bytes.text(start.name.as_bytes())?;
    bytes.text(start.program.as_os_str().as_bytes())?;
    bytes.u8(match start.kind {
        ProgramKind::OnDemand => ON_DEMAND,
        ProgramKind::Supervised => SUPERVISED,
        ProgramKind::Cgi => CGI,
    });
    bytes.count(start.arguments.len())?;
    for argument in &start.arguments {
        bytes.text(argument.as_bytes())?;
    }
    bytes.u8(u8::from(start.allows_arguments));
    bytes.count(start.environment.len())?;
    for (name, value) in &start.environment {
        bytes.text(name.as_bytes())?;
        bytes.text(value.as_bytes())?;
    }
    if let Some(identity) = &start.identity {
        bytes.u8(PRESENT);
        bytes.u32(identity.uid);
        bytes.u32(identity.gid);
        bytes.count(identity.groups.len())?;
        identity.groups.iter().for_each(|group| bytes.u32(*group));
    } else {
        bytes.u8(ABSENT);
    }
    bytes.u8(if start.chroot.is_some() { PRESENT } else { ABSENT });
    if let Some(chroot) = &start.chroot {
        bytes.text(chroot.as_os_str().as_bytes())?;
    }
    bytes.text(start.working_directory.as_os_str().as_bytes())?;
    bytes.u8(if start.nice.is_some() { PRESENT } else { ABSENT });
    bytes.u8(start.nice.unwrap_or(0).cast_unsigned());
    bytes.count(start.resource_limits.len())?;
    for limit in &start.resource_limits {
        bytes.u8(limit.resource as u8);
        bytes.u64(limit.soft.unwrap_or(u64::MAX));
        bytes.u64(limit.hard.unwrap_or(u64::MAX));
    }
    bytes.u8(u8::try_from(start.stop_signal.as_raw()).ok()?);
    bytes.u32(start.grace_ms);
    bytes.u8(if start.cgi_script.is_some() { PRESENT } else { ABSENT });
    if let Some(script) = &start.cgi_script {
        bytes.text(script.as_bytes())?;
    }
    bytes.count(start.cgi_variables.len())?;
    for name in &start.cgi_variables {
        bytes.text(name.as_bytes())?;
    }
    bytes.u8(u8::from(start.cgi_as_root));
    Some(bytes.into_bytes())
}

/// Decodes a row. Returns `None` if the bytes are malformed. The caller still has to check the row.
pub(crate) fn decode_start(bytes: &[u8]) -> Option<ProgramStart> {
    let mut reader = ByteReader::new(bytes);
    let bytes = &mut reader;
    let start = ProgramStart {
        name: String::from_utf8(bytes.text()?.to_vec()).ok()?,
        program: path(bytes)?,
        kind: match bytes.u8()? {
            ON_DEMAND => ProgramKind::OnDemand,
            SUPERVISED => ProgramKind::Supervised,
            CGI => ProgramKind::Cgi,
            _ => return None,
        },
        arguments: (0..bytes.count(ARGUMENTS_MAX)?).map(|_| text(bytes)).collect::<Option<_>>()?,
        allows_arguments: flag(bytes)?,
        environment: (0..bytes.count(ENVIRONMENT_MAX)?)
            .map(|_| Some((text(bytes)?, text(bytes)?)))
            .collect::<Option<_>>()?,
        identity: if flag(bytes)? { Some(identity(bytes)?) } else { None },
        chroot: if flag(bytes)? { Some(path(bytes)?) } else { None },
        working_directory: path(bytes)?,
        nice: match (flag(bytes)?, bytes.u8()?.cast_signed()) {
            (true, nice) => Some(nice),
            (false, 0) => None,
            (false, _) => return None,
        },
        resource_limits: (0..bytes.count(RESOURCES.len())?)
            .map(|_| resource_limit(bytes))
            .collect::<Option<_>>()?,
        stop_signal: Signal::from_named_raw(i32::from(bytes.u8()?))?,
        grace_ms: bytes.u32()?,
        cgi_script: if flag(bytes)? { Some(text(bytes)?) } else { None },
        cgi_variables: (0..bytes.count(CGI_NAMES_MAX)?)
            .map(|_| text(bytes))
            .collect::<Option<_>>()?,
        cgi_as_root: flag(bytes)?,
    };
    reader.end()?;
    Some(start)
}

fn flag(bytes: &mut ByteReader<'_>) -> Option<bool> {
    match bytes.u8()? {
        ABSENT => Some(false),
        PRESENT => Some(true),
        _ => None,
    }
}

fn text(bytes: &mut ByteReader<'_>) -> Option<OsString> {
    bytes.text().map(|text| OsStr::from_bytes(text).to_owned())
}

fn path(bytes: &mut ByteReader<'_>) -> Option<PathBuf> {
    bytes.text().map(|text| PathBuf::from(OsString::from_vec(text.to_vec())))
}

fn identity(bytes: &mut ByteReader<'_>) -> Option<Identity> {
    Some(Identity {
        uid: bytes.u32()?,
        gid: bytes.u32()?,
        groups: (0..bytes.count(GROUPS_MAX)?).map(|_| bytes.u32()).collect::<Option<_>>()?,
    })
}

fn resource_limit(bytes: &mut ByteReader<'_>) -> Option<ResourceLimit> {
    let number = bytes.u8()?;
    let resource = RESOURCES.into_iter().find(|resource| *resource as u8 == number)?;
    let value = |number: u64| (number != u64::MAX).then_some(number);
    Some(ResourceLimit { resource, soft: value(bytes.u64()?), hard: value(bytes.u64()?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(max: usize) -> impl Strategy<Value = Vec<OsString>> {
        let text = prop::collection::vec(any::<u8>(), 0..20).prop_map(OsString::from_vec);
        prop::collection::vec(text, 0..max)
    }

    fn limits() -> impl Strategy<Value = Vec<ResourceLimit>> {
        let value = || prop::option::of(0..u64::MAX);
        let limit = (prop::sample::select(RESOURCES.to_vec()), value(), value());
        prop::collection::vec(
            limit.prop_map(|(resource, soft, hard)| ResourceLimit { resource, soft, hard }),
            0..RESOURCES.len(),
        )
    }

    fn identities() -> impl Strategy<Value = Option<Identity>> {
        let groups = prop::collection::vec(any::<u32>(), 0..GROUPS_MAX);
        prop::option::of(
            (any::<u32>(), any::<u32>(), groups).prop_map(|(uid, gid, groups)| Identity {
                uid,
                gid,
                groups,
            }),
        )
    }

    prop_compose! {
        fn starts()(
            name in "[a-zä]{0,8}",
            paths in texts(3),
            arguments in texts(5),
            names in texts(5),
            flags in any::<[bool; 3]>(),
            kind in prop::sample::select(vec![
                ProgramKind::OnDemand,
                ProgramKind::Supervised,
                ProgramKind::Cgi,
            ]),
            cgi_variables in texts(3),
            identity in identities(),
            nice in prop::option::of(any::<i8>()),
            resource_limits in limits(),
            signal in 1..=31i32,
            grace_ms in any::<u32>(),
        ) -> ProgramStart {
            let path = |at: usize| PathBuf::from(paths.get(at).cloned().unwrap_or_default());
            ProgramStart {
                kind,
                arguments,
                allows_arguments: flags[0],
                environment: names.into_iter().map(|name| (name.clone(), name)).collect(),
                identity,
                chroot: flags[1].then(|| path(0)),
                working_directory: path(1),
                nice,
                resource_limits,
                stop_signal: Signal::from_named_raw(signal).expect("a standard signal"),
                grace_ms,
                cgi_variables,
                cgi_as_root: flags[2],
                cgi_script: flags[1].then(|| name.clone().into()),
                ..ProgramStart::new(&name, path(2))
            }
        }
    }

    proptest! {
        #[test]
        fn table_rows_round_trip(start in starts()) {
            let bytes = encode_start(&start).expect("short texts");
            prop_assert_eq!(decode_start(&bytes), Some(start));
        }

        #[test]
        fn truncated_and_longer_rows_are_malformed(start in starts(), at in any::<u16>()) {
            let mut bytes = encode_start(&start).expect("short texts");
            let cut = usize::from(at) % bytes.len();
            prop_assert_eq!(decode_start(&bytes[..cut]), None);
            bytes.push(0);
            prop_assert_eq!(decode_start(&bytes), None);
        }
    }
}
