//! Laws for any files. The input is split at bytes 0x1e: the first part is the page, the others are
//! the files `/1`, `/2` …

use pinion_template::{PAGE_VALUES, Template, compile};

pub(crate) fn check(data: &[u8]) -> Option<Template> {
    let files: Vec<&[u8]> = data.split(|&byte| byte == 0x1e).collect();
    let lookup = |path: &str| match path {
        "/index.dyn.html" => Some(files[0]),
        _ => files.get(path.strip_prefix('/')?.parse::<usize>().ok().filter(|&n| n > 0)?).copied(),
    };
    let lines = |path: &str| lookup(path).map(|text| text.iter().filter(|&&b| b == b'\n').count());
    match compile("/index.dyn.html", lookup) {
        Ok(template) => {
            assert_eq!(template.files[0], "/index.dyn.html");
            let ends = template.lua.iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(template.lines.len(), ends + 1);
            for line in 1..=template.lines.len() {
                let (file, line) = template.origin(line as u32).expect("each line has one");
                assert!((1..=lines(file).unwrap() + 1).contains(&(line as usize)), "{file}:{line}");
            }
            assert!(!template.lua.contains(&b'\r'), "Lua counts lines as we do");
            assert!(template.segments.iter().all(|segment| !segment.is_empty()));
            assert!(template.value_names.iter().all(|name| PAGE_VALUES.contains(name)));
            let is_plain = |text: &[u8]| {
                !text.windows(2).any(|two| two == b"<?") && !text.windows(2).any(|two| two == b"#[")
            };
            if is_plain(files[0]) && !files[0].starts_with(b"#!") {
                assert_eq!(template.segments.concat(), files[0]);
            }
            assert_eq!(compile("/index.dyn.html", lookup).as_ref(), Ok(&template));
            Some(template)
        }
        Err(problem) => {
            let last = lines(&problem.file).expect("the file is one of the site") + 1;
            assert!((1..=last).contains(&(problem.line as usize)), "{problem}");
            assert!(!problem.message.is_empty() && !problem.message.contains('\n'), "{problem}");
            None
        }
    }
}
