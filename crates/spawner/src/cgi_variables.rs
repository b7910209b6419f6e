//! Decides which variables a worker may set for a CGI script. An attacker who controls a worker can
//! choose the values of these variables, but cannot set variables that control a loader, a shell or
//! a library.

/// The text that begins the names of variables made of header fields (RFC 3875 §4.1.18).
const FIELD_PREFIX: &[u8] = b"HTTP_";

/// Returns whether a variable is one of CGI: a meta-variable of RFC 3875 §4.1, one that servers add
/// to them, or one made of a header field. `HTTP_PROXY` is excluded, since libraries interpret it
/// as the address of a proxy (CVE-2016-5385).
#[must_use]
pub fn is_cgi_variable(name: &[u8]) -> bool {
    match name {
        b"AUTH_TYPE" | b"CONTENT_LENGTH" | b"CONTENT_TYPE" | b"GATEWAY_INTERFACE"
        | b"PATH_INFO" | b"PATH_TRANSLATED" | b"QUERY_STRING" | b"REMOTE_ADDR" | b"REMOTE_HOST"
        | b"REMOTE_IDENT" | b"REMOTE_USER" | b"REQUEST_METHOD" | b"SCRIPT_NAME"
        | b"SERVER_NAME" | b"SERVER_PORT" | b"SERVER_PROTOCOL" | b"SERVER_SOFTWARE"
        | b"DOCUMENT_ROOT" | b"HTTPS" | b"REDIRECT_STATUS" | b"REMOTE_PORT" | b"REQUEST_SCHEME"
        | b"REQUEST_URI" | b"SCRIPT_FILENAME" | b"SERVER_ADDR" => true,
        b"HTTP_PROXY" => false,
        name => name.strip_prefix(FIELD_PREFIX).is_some_and(is_field_name),
    }
}

fn is_field_name(name: &[u8]) -> bool {
    let is_allowed =
        |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    !name.is_empty() && name.iter().all(is_allowed)
}

/// Splits variables, each a name, `=`, a value and a NUL, into pairs of their names and of whole
/// variables with the NUL. A variable without `=` has no name.
pub(crate) fn variables(block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    block.split_inclusive(|byte| *byte == 0).map(|variable| {
        let name_bytes = variable.iter().position(|byte| *byte == b'=').unwrap_or(0);
        (&variable[..name_bytes], variable)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_cgi_are_allowed() {
        for name in ["PATH_INFO", "HTTP_X_A", "HTTP_2", "HTTPS", "HTTP_PROXY_", "HTTP_COOKIE"] {
            assert!(is_cgi_variable(name.as_bytes()), "{name}");
        }
        for name in [
            "",
            "HTTP",
            "HTTP_",
            "HTTP_PROXY",
            "http_x",
            "HTTP_x",
            "HTTP_X-A",
            "HTTP_X\n",
            "LD_PRELOAD",
            "PATH",
            "BASH_ENV",
            "PERL5OPT",
            "PINION_START",
            "XHTTP_A",
            "IFS",
        ] {
            assert!(!is_cgi_variable(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_block_of_variables_is_split_at_nul_bytes() {
        let found: Vec<_> = variables(b"A=1\0B=\0=x\0C\0D=2=3\0").collect();
        let expected: [(&[u8], &[u8]); 5] =
            [(b"A", b"A=1\0"), (b"B", b"B=\0"), (b"", b"=x\0"), (b"", b"C\0"), (b"D", b"D=2=3\0")];
        assert_eq!(found, expected);
        assert_eq!(variables(b"").count(), 0);
    }
}
