use super::*;

/// The result of a whole form: each part with its content, or the fault of the form.
type Parts = Vec<(PartHead, Vec<u8>)>;

fn read(form: &[u8]) -> Result<Parts, FormFault> {
    let mut reader = FormReader::new(b"b");
    let mut parts: Parts = Vec::new();
    reader.push(form, &mut |event| match event {
        FormEvent::Part(part) => parts.push((part, Vec::new())),
        FormEvent::Data(bytes) => parts.last_mut().expect("a part").1.extend_from_slice(bytes),
        FormEvent::PartEnd | FormEvent::End => {}
    })?;
    reader.finish()?;
    Ok(parts)
}

/// A form of one part, with this field line.
fn head(line: &str) -> Result<PartHead, FormFault> {
    let form = format!("--b\r\n{line}\r\n\r\nx\r\n--b--\r\n");
    read(form.as_bytes()).map(|parts| parts[0].0.clone())
}

fn part(name: &str, file_name: Option<&str>) -> PartHead {
    let file_name = file_name.map(|name| name.as_bytes().to_vec());
    PartHead { name: name.as_bytes().to_vec(), file_name, content_type: None }
}

#[test]
fn names_are_parsed_as_sent() {
    for (parameters, name, file_name) in [
        (r#"name="a""#, "a", None),
        ("name=a", "a", None),
        (r#"NAME="a" ; FileName="f""#, "a", Some("f")),
        (r#"filename="f"; name="a""#, "a", Some("f")),
        (r#"name="""#, "", None),
        (r#"name="a"; filename="""#, "a", Some("")),
        (r#"name="a;b"; filename="c;d=\"e\"""#, "a;b", Some("c;d=\"e\"")),
        (r#"name="a%22b%0D%0a%41%""#, "a\"b\r\n%41%", None),
        (r#"name="a"; filename="C:\dir\x.txt""#, "a", Some(r"C:\dir\x.txt")),
        (r#"name="a"; filename="a\\b""#, "a", Some(r"a\b")),
        (r#"name="a"; filename="ä.txt"; filename*=UTF-8''other"#, "a", Some("ä.txt")),
        (r#"name="a";filename=a b.txt;"#, "a", Some("a b.txt")),
        (r#"name="a"; filename="../../x""#, "a", Some("../../x")),
        // Browsers do not escape a backslash, wherever it is.
        (r#"name="a\""#, r"a\", None),
        (r#"name="a\"; filename="x.txt""#, r"a\", Some("x.txt")),
        (r#"name="a"; filename="C:\dir\""#, "a", Some(r"C:\dir\")),
        (r#"name="a\"; filename="b\""#, r"a\", Some(r"b\")),
    ] {
        let found = head(&format!("Content-Disposition: form-data; {parameters}"));
        assert_eq!(found, Ok(part(name, file_name)), "{parameters}");
    }
}

#[test]
fn ambiguous_and_meaningless_part_heads_are_refused() {
    for (line, fault) in [
        ("X-Other: a", FormFault::Nameless),
        ("Content-Disposition: form-data", FormFault::Nameless),
        ("Content-Disposition: attachment; name=a", FormFault::Nameless),
        ("Content-Disposition: form-data; filename=a", FormFault::Nameless),
        ("Content-Disposition: form-data; name=a; name=b", FormFault::PartHead),
        ("Content-Disposition: form-data; name=a; filename=b; Filename=c", FormFault::PartHead),
        ("Content-Disposition: form-data; name=\"a", FormFault::PartHead),
        ("Content-Disposition: form-data; name=\"a\"b", FormFault::PartHead),
        ("Content-Disposition: form-data; name", FormFault::PartHead),
        ("Content-Disposition : form-data; name=a", FormFault::PartHead),
        ("Content-Disposition: form-data; name=a;\r\n x=y", FormFault::PartHead),
        ("Content-Disposition: form-data; name=a\nX: y", FormFault::PartHead),
        ("Content-Disposition: form-data; name=a\rX: y", FormFault::PartHead),
        ("no field", FormFault::PartHead),
        (
            "Content-Disposition: form-data; name=a\r\ncontent-disposition: form-data; name=b",
            FormFault::PartHead,
        ),
    ] {
        assert_eq!(head(line), Err(fault), "{line}");
    }
    let long = "a".repeat(crate::limits::PART_NAME_MAX_BYTES + 1);
    let line = format!("Content-Disposition: form-data; name={long}");
    assert_eq!(head(&line), Err(FormFault::NameTooLong));
    assert!(head(&line[..line.len() - 1]).is_ok());
    let large = format!("X: {}", "a".repeat(PART_HEAD_MAX_BYTES));
    assert_eq!(head(&large), Err(FormFault::PartHeadTooLarge));
}

const LINE: &str = "Content-Disposition: form-data; name=a";

#[test]
fn content_is_the_bytes_between_delimiters() {
    for (form, contents) in [
        ("--b--", &[][..]),
        ("--b--\r\n", &[]),
        ("--b-- \t\r\nwhat comes behind\r\n--b\r\nit", &[]),
        ("for old programs\r\n--b\r\n{}\r\n\r\n1\r\n--b--", &["1"]),
        ("\r\n--b\r\n{}\r\n\r\n1\r\n--b--", &["1"]),
        ("--b \t\r\n{}\r\n\r\n1\r\n--b\t\r\n{}\r\n\r\n2\r\n--b--", &["1", "2"]),
        ("--b\r\n{}\r\n\r\n\r\n--b--", &[""]),
        ("--b\r\n{}\r\n\r\n--b--", &[""]),
        ("--b\r\n{}\r\n\r\n--c\r\n--b--", &["--c"]),
        ("--b\r\n{}\r\n\r\n\r\r\n-\r\n--\r\n--a\r\r\n--b--", &["\r\r\n-\r\n--\r\n--a\r"]),
    ] {
        let form = form.replace("{}", LINE);
        let found = read(form.as_bytes()).expect(&form);
        let found: Vec<_> = found.into_iter().map(|(_, content)| content).collect();
        let expected: Vec<_> = contents.iter().map(|text| text.as_bytes().to_vec()).collect();
        assert_eq!(found, expected, "{form:?}");
    }
}

#[test]
fn malformed_forms_are_refused() {
    for (form, fault) in [
        ("", FormFault::Incomplete),
        ("garbage", FormFault::Incomplete),
        ("--b", FormFault::Incomplete),
        ("--b-", FormFault::Incomplete),
        ("--b\r\n", FormFault::Incomplete),
        ("--b\r\n{}\r\n\r\n1", FormFault::Incomplete),
        ("--b\r\n{}\r\n\r\n1\r\n--b", FormFault::Incomplete),
        ("--b\r\n{}\r\n\r\n1\r\n--b\r\n", FormFault::Incomplete),
        ("--bc\r\n", FormFault::Delimiter),
        ("--b-c", FormFault::Delimiter),
        ("--b--c", FormFault::Delimiter),
        ("--b\n{}\n\n1\n--b--", FormFault::Delimiter),
        ("--b\r\r\n", FormFault::Delimiter),
        ("--b\r\n\r\n1\r\n--b--", FormFault::Nameless),
    ] {
        assert_eq!(read(form.replace("{}", LINE).as_bytes()), Err(fault), "{form:?}");
    }
    let many = format!("--b\r\n{LINE}\r\n\r\n\r\n").repeat(PARTS_MAX);
    assert_eq!(read(format!("{many}--b--").as_bytes()).map(|parts| parts.len()), Ok(PARTS_MAX));
    let more = format!("{many}--b\r\n{LINE}\r\n\r\n\r\n--b--");
    assert_eq!(read(more.as_bytes()), Err(FormFault::TooManyParts));
}

#[test]
fn the_boundary_is_a_parameter_of_the_type() {
    let find = |value: &str| boundary(value.as_bytes());
    let text = |text: &str| Some(Ok(text.as_bytes().to_vec()));
    assert_eq!(find("multipart/form-data; boundary=abc"), text("abc"));
    assert_eq!(find("Multipart/Form-Data ;charset=x; BOUNDARY=\"a b:c\" "), text("a b:c"));
    assert_eq!(find("multipart/form-data; boundary=a/b=c;"), text("a/b=c"));
    let longest = "a".repeat(70);
    assert_eq!(find(&format!("multipart/form-data; boundary={longest}")), text(&longest));
    assert_eq!(find("multipart/mixed; boundary=abc"), None);
    assert_eq!(find("application/x-www-form-urlencoded"), None);
    assert_eq!(find(""), None);
    for wrong in [
        "multipart/form-data".to_owned(),
        "multipart/form-data; boundary".to_owned(),
        "multipart/form-data; boundary=".to_owned(),
        "multipart/form-data; boundary=\"\"".to_owned(),
        "multipart/form-data; boundary=\"a".to_owned(),
        "multipart/form-data; boundary=\"a \"".to_owned(),
        "multipart/form-data; boundary=a; boundary=a".to_owned(),
        "multipart/form-data; boundary=a\u{e4}".to_owned(),
        format!("multipart/form-data; boundary={longest}a"),
    ] {
        assert_eq!(find(&wrong), Some(Err(FormFault::Boundary)), "{wrong}");
    }
}

#[test]
fn an_error_is_permanent() {
    let mut reader = FormReader::new(b"b");
    let nothing = &mut |_: FormEvent<'_>| {};
    assert_eq!(reader.push(b"--bc", nothing), Err(FormFault::Delimiter));
    assert_eq!(reader.push(b"\r\n--b--", nothing), Err(FormFault::Delimiter));
    assert_eq!(reader.finish(), Err(FormFault::Delimiter));
}
