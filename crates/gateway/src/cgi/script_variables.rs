//! The variables of a request as the environment of a script.

use pinion_http::cgi::variable_error::VariableError;
use pinion_http::cgi::variables::{
    RequestVariables, ScriptVariables, ServerVariables, VariableScratch,
};
use pinion_http::forwarded_client::ClientIdentity;
use pinion_http::h1::client::request_writer::RequestContent;
use pinion_http::request_head::{Framing, RequestHead};
use pinion_programs::{CGI_VARIABLES_MAX, CGI_VARIABLES_MAX_BYTES};

use super::cgi_scripts::CgiScripts;
use crate::fastcgi_scgi_variables::{SOFTWARE, is_passed, server};
use crate::field_changes::FieldChanges;

/// Bytes of the variables beside those of the fields and the paths, about.
const OWN_VARIABLES_BYTES: usize = 768;

/// A script that responds to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptTarget {
    /// Its path below the folder.
    pub(super) path: Vec<u8>,
    /// `SCRIPT_NAME`.
    pub(super) name: Vec<u8>,
    /// `PATH_INFO`.
    pub(super) path_info: Vec<u8>,
}

/// Returns the variables of a request, each a name, `=`, a value and a NUL byte. The length of
/// content that has none is added by [`add_content_length`].
///
/// # Errors
/// A variable has a NUL byte, or all are too long.
pub(super) fn script_variables(
    scripts: &CgiScripts,
    target: &ScriptTarget,
    head: &RequestHead<'_>,
    client: &ClientIdentity,
    scratch: &mut VariableScratch,
) -> Result<Vec<u8>, VariableError> {
    let filename = scripts.filename(&target.path);
    let (name, port) = server(head, client);
    let mut added: Vec<(&[u8], &[u8])> = vec![(b"REDIRECT_STATUS", b"200")];
    let translated = [&*scripts.script_folder, &*target.path_info].concat();
    if !target.path_info.is_empty() {
        added.push((b"PATH_TRANSLATED", &translated));
    }
    let request = RequestVariables {
        head,
        client: *client,
        server: ServerVariables { name: &name, port, software: SOFTWARE.as_bytes() },
        script: ScriptVariables {
            document_root: &scripts.script_folder,
            filename: &filename,
            name: &target.name,
            path_info: &target.path_info,
        },
        content: match head.framing {
            Framing::None => RequestContent::Length(0),
            Framing::Length(bytes) => RequestContent::Length(bytes),
            Framing::Chunked | Framing::Frames => RequestContent::Chunked,
        },
        passes_authorization: scripts.passes_authorization,
        added: &added,
    };
    let field_bytes: usize =
        head.fields.iter().map(|field| field.name.len() + field.value.len() + 8).sum();
    let path_bytes = 2 * head.target.raw.len() + 3 * filename.len();
    let mut block = Vec::with_capacity(field_bytes + path_bytes + OWN_VARIABLES_BYTES);
    let (changes, mut count) = (FieldChanges::default(), 0);
    request.visit(scratch, |name, value| {
        if !is_passed(name, &changes) {
            return Ok(());
        }
        count += 1;
        // One more follows if the length of the content is not known yet.
        if count >= CGI_VARIABLES_MAX {
            return Err(VariableError::TooLarge);
        }
        push(&mut block, name, value)
    })?;
    Ok(block)
}

/// Adds the length of content that was stored.
///
/// # Errors
/// The variables are too long.
pub(super) fn add_content_length(block: &mut Vec<u8>, bytes: u64) -> Result<(), VariableError> {
    push(block, b"CONTENT_LENGTH", bytes.to_string().as_bytes())
}

fn push(block: &mut Vec<u8>, name: &[u8], value: &[u8]) -> Result<(), VariableError> {
    if name.is_empty() || name.contains(&b'=') || name.contains(&0) {
        return Err(VariableError::Name);
    }
    if value.contains(&0) {
        return Err(VariableError::Value);
    }
    if block.len() + name.len() + value.len() + 2 > CGI_VARIABLES_MAX_BYTES {
        return Err(VariableError::TooLarge);
    }
    block.extend_from_slice(name);
    block.push(b'=');
    block.extend_from_slice(value);
    block.push(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_http::h1::head_parser::{HeadStorage, Parsed, parse};
    use pinion_http::limits::Limits;

    fn variables(text: &str, target: &ScriptTarget) -> Vec<String> {
        let scripts = CgiScripts::new("/srv/cgi/");
        let mut storage = HeadStorage::new();
        let parsed = parse(text.as_bytes(), 0, &mut storage, &Limits::default());
        let Ok(Parsed::Head { head, .. }) = parsed else { panic!("a head") };
        let client = ClientIdentity { peer: "192.0.2.1:5".parse().ok(), is_secured: true };
        let scratch = &mut VariableScratch::default();
        let block = script_variables(&scripts, target, &head, &client, scratch);
        let block = String::from_utf8(block.expect("short variables")).expect("text");
        block.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn a_script_gets_the_variables_of_cgi() {
        let target = ScriptTarget {
            path: b"dir/a.cgi".to_vec(),
            name: b"/run/dir/a.cgi".to_vec(),
            path_info: b"/x y".to_vec(),
        };
        let text = "POST /run/dir/a.cgi/x%20y?q=1 HTTP/1.1\r\nHost: Example.org:81\r\n\
            Content-Length: 3\r\nContent-Type: text/plain\r\nX-A: 1\r\nX_B: 2\r\nProxy: p\r\n\
            Authorization: secret\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n";
        let shown = variables(text, &target);
        for expected in [
            "GATEWAY_INTERFACE=CGI/1.1",
            "SERVER_PROTOCOL=HTTP/1.1",
            "REQUEST_METHOD=POST",
            "QUERY_STRING=q=1",
            "REQUEST_URI=/run/dir/a.cgi/x%20y?q=1",
            "SCRIPT_NAME=/run/dir/a.cgi",
            "SCRIPT_FILENAME=/srv/cgi/dir/a.cgi",
            "DOCUMENT_ROOT=/srv/cgi",
            "PATH_INFO=/x y",
            "PATH_TRANSLATED=/srv/cgi/x y",
            "CONTENT_LENGTH=3",
            "CONTENT_TYPE=text/plain",
            "SERVER_NAME=example.org",
            "SERVER_PORT=81",
            "REMOTE_ADDR=192.0.2.1",
            "HTTPS=on",
            "REDIRECT_STATUS=200",
            "HTTP_HOST=Example.org:81",
            "HTTP_X_A=1",
        ] {
            assert!(shown.contains(&expected.to_owned()), "{expected}: {shown:?}");
        }
        let refused = |name: &str| {
            ["HTTP_X_B", "HTTP_PROXY", "HTTP_AUTH", "HTTP_X_F"]
                .iter()
                .any(|front| name.starts_with(front))
        };
        assert!(!shown.iter().any(|variable| refused(variable)), "{shown:?}");
    }

    #[test]
    fn variables_are_bounded() {
        let mut block = vec![b'x'; CGI_VARIABLES_MAX_BYTES - 20];
        assert_eq!(add_content_length(&mut block, 1000), Ok(()));
        assert_eq!(add_content_length(&mut block, 1), Err(VariableError::TooLarge));
        assert!(block.ends_with(b"CONTENT_LENGTH=1000\0"));
        assert_eq!(push(&mut block, b"A", b"\0"), Err(VariableError::Value));
        assert_eq!(push(&mut block, b"A=", b""), Err(VariableError::Name));
    }
}
