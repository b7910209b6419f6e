//! Paths in includes.

/// Returns the file that `written` means in a file at `base`, both from the root of the site, which
/// is `/`. Returns none where it would lead above the root.
pub(crate) fn resolve(base: &str, written: &str) -> Option<String> {
    let folder = base.rfind('/').map_or("", |at| &base[..at]);
    let folder = if written.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(written.split('/')) {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            _ => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn include_paths_are_relative_to_the_file_and_below_the_root() {
        for (base, written, file) in [
            ("/a/b.html", "c.html", Some("/a/c.html")),
            ("/a/b.html", "/c.html", Some("/c.html")),
            ("/a/b.html", "../c.html", Some("/c.html")),
            ("/a/b.html", "./x/./../c.html", Some("/a/c.html")),
            ("/a/b.html", "../../c.html", None),
            ("/b.html", "..", None),
            ("/b.html", "/../etc/passwd", None),
            ("/b.html", "x/../../c", None),
        ] {
            assert_eq!(resolve(base, written).as_deref(), file, "{base} {written}");
        }
    }
}
