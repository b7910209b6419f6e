use super::*;
use rustix::process::Resource;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Returns the error of a table of one program after a change.
fn error(change: impl FnOnce(&mut ProgramStart)) -> String {
    let mut start = ProgramStart::new("sh", "/bin/sh");
    change(&mut start);
    match (StartTable { starts: vec![start] }).check() {
        Ok(()) => String::new(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_minimal_program_passes_the_check() {
    assert_eq!(error(|_| ()), "");
    assert!(StartTable::default().check().is_ok());
}

#[test]
fn programs_must_be_absolute_existing_executable_files() {
    let of = |path: &str| error(|start| start.program = path.into());
    assert!(of("bin/sh").contains("bin/sh is not an absolute path"), "{}", of("bin/sh"));
    assert!(of("/no/such").contains("program `sh`: cannot open /no/such: No such file"));
    assert!(of("/bin").contains("/bin is not a file"));
    assert!(of("/etc/passwd").contains("/etc/passwd is not executable: run `chmod +x`"));
    assert!(of("/dev/null").contains("/dev/null is not a file"));
    assert!(of(&format!("/{}", "x".repeat(PATH_MAX_BYTES))).contains("is no path"));
    let directory = |path: &str| error(|start| start.working_directory = path.into());
    assert!(directory("/etc/passwd").contains("/etc/passwd is not a directory"));
    assert!(directory("tmp").contains("tmp is not an absolute path"));
}

#[test]
fn names_arguments_and_environment_are_limited() {
    let name = |name: &str| error(|start| start.name = name.into());
    for wrong in ["", "a b", "ä", "a\n", &"x".repeat(NAME_MAX_BYTES + 1)] {
        assert!(name(wrong).contains("a name has 1 to 32"), "{wrong}");
    }
    let arguments = |texts: Vec<&[u8]>| {
        let texts = texts.into_iter().map(|text| OsString::from_vec(text.to_vec())).collect();
        error(|start| start.arguments = texts)
    };
    assert!(arguments(vec![b"a", b"b\0"]).contains("argument 2 has a NUL byte"));
    assert!(arguments(vec![b""; ARGUMENTS_MAX + 1]).contains("65 arguments are too many"));
    assert!(arguments(vec![&[b'x'; START_MAX_BYTES]]).contains("bytes, at most 32768"));
    let environment = |variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        error(|start| start.environment = variables.collect())
    };
    assert!(environment(&[("", "x")]).contains("cannot be set: \"\""));
    assert!(environment(&[("A=B", "x")]).contains("cannot be set: \"A=B\""));
    assert!(environment(&[("A", "x\0")]).contains("cannot be set: \"A\""));
    assert!(environment(&[("A", "1"), ("A", "2")]).contains("has `A` twice"));
    assert!(environment(&[(MARKER, "1")]).contains("which the server sets"));
}

#[test]
fn settings_of_the_process_are_limited() {
    assert!(error(|start| start.nice = Some(20)).contains("-20 to 19"));
    assert_eq!(error(|start| start.nice = Some(19)), "");
    let is_allowed = needs(CapabilitySet::SYS_NICE, "", "").is_ok();
    let own = getpriority_process(None).expect("a nice value");
    if let Ok(lower) = i8::try_from(own - 1)
        && lower >= -20
    {
        let refused = error(|start| start.nice = Some(lower));
        assert_eq!(refused.contains("below that of the server needs CAP_SYS_NICE"), !is_allowed);
    }
    assert!(error(|start| start.grace_ms = GRACE_MAX_MS + 1).contains("is too long"));
    assert!(error(|start| start.stop_signal = Signal::CONT).contains("does not stop a program"));
    let limit = |soft, hard| ResourceLimit { resource: Resource::Core, soft, hard };
    let limits = |limits: Vec<ResourceLimit>| error(|start| start.resource_limits = limits);
    assert!(limits(vec![limit(None, Some(1))]).contains("above the hard limit"));
    assert!(limits(vec![limit(Some(0), Some(0)); 2]).contains("is set twice"));
    assert_eq!(limits(vec![limit(Some(0), Some(0))]), "");
}

#[test]
fn tables_are_limited_in_number_and_size() {
    let starts = |count: usize, size: usize| {
        let start = |number: usize| ProgramStart {
            arguments: vec![OsString::from_vec(vec![b'x'; size])],
            ..ProgramStart::new(&format!("p{number}"), "/bin/sh")
        };
        StartTable { starts: (0..count).map(start).collect() }.check()
    };
    assert!(starts(STARTS_MAX, 0).is_ok());
    assert!(matches!(starts(STARTS_MAX + 1, 0), Err(TableError::TooManyStarts(_))));
    assert!(matches!(starts(5, 30_000), Err(TableError::TooLarge(_))));
    let twice = StartTable { starts: vec![ProgramStart::new("a", "/bin/sh"); 2] };
    assert!(matches!(twice.check(), Err(TableError::DuplicateName(_))));
}

#[test]
fn invalid_user_and_group_ids_are_refused() {
    let identity = |groups: Vec<u32>, uid| Identity { uid, gid: 1, groups };
    let of = |identity| error(|start| start.identity = Some(identity));
    assert!(of(identity(vec![], u32::MAX)).contains("is no user or group"));
    assert!(of(identity(vec![1; GROUPS_MAX + 1], 1)).contains("supplementary groups are too many"));
}

/// A supervised program need not exist, because its start is retried until it does.
#[test]
fn missing_files_of_supervised_programs_do_not_fail_the_table() {
    let missing =
        ProgramStart { kind: ProgramKind::Supervised, ..ProgramStart::new("app", "/no/such") };
    assert!(missing.check_files().is_err());
    assert!(StartTable { starts: vec![missing] }.check().is_ok());
    let relative =
        ProgramStart { kind: ProgramKind::Supervised, ..ProgramStart::new("app", "app") };
    assert!(StartTable { starts: vec![relative] }.check().is_err());
}

/// The server cannot open a private folder of another user, but the program can.
#[test]
fn files_that_only_the_user_of_the_program_can_access_are_accepted() {
    use rustix::thread::set_capabilities;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    let folder = std::env::temp_dir().join(format!("pinion-private-{}", std::process::id()));
    fs::create_dir(&folder).expect("a folder");
    fs::copy("/bin/true", folder.join("app")).expect("a program");
    fs::set_permissions(&folder, Permissions::from_mode(0o000)).expect("a mode");
    // This thread drops two capabilities, because root could access all files with them.
    let own = capabilities(None).expect("capabilities");
    let mut fewer = own;
    fewer.effective -= CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    set_capabilities(None, fewer).expect("fewer capabilities");
    let mut start = ProgramStart::new("app", folder.join("app"));
    let as_own = start.check_files();
    start.identity = Some(Identity { uid: geteuid().as_raw() + 1, gid: 1, groups: vec![1] });
    let as_other = start.check_files();
    start.program = "/no/such".into();
    let missing = start.check_files();
    set_capabilities(None, own).expect("the same capabilities");
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).expect("a mode");
    fs::remove_dir_all(&folder).expect("removed");
    assert!(as_own.expect_err("refused").to_string().contains("Permission denied"));
    as_other.expect("nothing is known to be wrong");
    assert!(missing.expect_err("refused").to_string().contains("No such file"));
}

#[test]
fn cgi_scripts_need_a_folder_and_do_not_run_as_root() {
    let of = |change: &dyn Fn(&mut ProgramStart)| {
        error(|start| {
            start.kind = ProgramKind::Cgi;
            start.program = "/bin".into();
            start.cgi_as_root = true;
            change(start);
        })
    };
    assert_eq!(of(&|_| ()), "");
    assert!(of(&|start| start.program = "/bin/sh".into()).contains("/bin/sh is not a directory"));
    assert!(of(&|start| start.program = "/no/such".into()).contains("cannot open /no/such"));
    let as_root = of(&|start| start.cgi_as_root = false);
    assert_eq!(as_root.contains("would run as root: name a user"), geteuid().is_root());
    let named = of(&|start| {
        start.cgi_as_root = false;
        start.identity = Some(Identity { uid: 0, gid: 0, groups: vec![0] });
    });
    assert!(named.contains("would run as root"), "{named}");
    for wrong in ["", "A=B", "A\0", MARKER] {
        let shown = of(&|start| start.cgi_variables = vec!["OK".into(), wrong.into()]);
        assert!(shown.contains("requests cannot set the variable"), "{wrong:?}");
    }
    for wrong in ["", "..", "a/b", "A\0"] {
        let shown = of(&|start| start.cgi_script = Some(wrong.into()));
        assert!(shown.contains("is not the name of a script"), "{wrong:?}");
    }
    let many = of(&|start| start.cgi_variables = vec!["OK".into(); CGI_NAMES_MAX + 1]);
    assert!(many.contains("65 variables of requests are too many"), "{many}");
}
