//! Media types whose content is not encoded: it is compressed already, or clients read it in
//! ranges.

/// Returns whether content of a type is not worth trying to encode, because it is compressed
/// already, or not to be encoded, because clients read it in ranges. A compressed type that is not
/// recognized costs build time only: a coding that gains too little is dropped anyway.
pub(crate) fn is_packed(essence: &str) -> bool {
    is_compressed(essence) || READ_IN_RANGES.contains(&essence)
}

/// Databases, tables and maps that a client reads a few pages of. In a coding they have another
/// length, and a range of the coding is no range of the content (RFC 9110 §14.2).
const READ_IN_RANGES: [&str; 12] = [
    "application/geopackage+sqlite3",
    "application/vnd.apache.arrow.file",
    "application/vnd.apache.parquet",
    "application/vnd.laszip",
    "application/vnd.pmtiles",
    "application/vnd.sqlite3",
    "application/x-flatgeobuf",
    "application/x-hdf",
    "application/x-hdf5",
    "application/x-netcdf",
    "application/x-sqlite3",
    "image/tiff",
];

fn is_compressed(essence: &str) -> bool {
    let (top, sub) = essence.split_once('/').unwrap_or((essence, ""));
    match top {
        "audio" => !AUDIO_PLAIN.contains(&sub),
        "video" => true,
        "image" => IMAGE.contains(&sub),
        "font" => matches!(sub, "woff" | "woff2"),
        "application" => {
            APPLICATION.contains(&sub)
                || sub.ends_with("+zip")
                || sub.starts_with("vnd.openxmlformats-officedocument.")
                || sub.starts_with("vnd.oasis.opendocument.")
        }
        _ => false,
    }
}

/// Samples and notes as they are.
const AUDIO_PLAIN: [&str; 8] = ["aiff", "basic", "midi", "mod", "wav", "x-aiff", "x-midi", "x-wav"];

const IMAGE: [&str; 20] = [
    "apng",
    "avif",
    "avif-sequence",
    "avifs",
    "gif",
    "heic",
    "heic-sequence",
    "heif",
    "heif-sequence",
    "jp2",
    "jpeg",
    "jpm",
    "jpx",
    "jxl",
    "jxr",
    "ktx2",
    "pjpeg",
    "png",
    "webp",
    "x-webp",
];

const APPLICATION: [&str; 29] = [
    "appinstaller",
    "appx",
    "appxbundle",
    "gzip",
    "java-archive",
    "msix",
    "msixbundle",
    "vnd.android.package-archive",
    "vnd.apple.keynote",
    "vnd.apple.numbers",
    "vnd.apple.pages",
    "vnd.apple.pkpass",
    "vnd.debian.binary-package",
    "vnd.google-earth.kmz",
    "vnd.ms-cab-compressed",
    "vnd.rar",
    "x-7z-compressed",
    "x-apple-diskimage",
    "x-brotli",
    "x-bzip",
    "x-bzip2",
    "x-chrome-extension",
    "x-compress",
    "x-lzip",
    "x-rar-compressed",
    "x-xpinstall",
    "x-xz",
    "zip",
    "zstd",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressible_types_are_encoded() {
        for essence in [
            "text/html",
            "application/json",
            "image/svg+xml",
            "image/bmp",
            "image/x-icon",
            "font/ttf",
            "audio/wav",
            "application/wasm",
            "application/pdf",
            "application/octet-stream",
            "application/vnd.ms-fontobject",
            "odd",
        ] {
            assert!(!is_packed(essence), "{essence}");
        }
    }

    #[test]
    fn compressed_types_are_not_encoded() {
        for essence in [
            "image/png",
            "image/jpeg",
            "video/mp4",
            "audio/mpeg",
            "font/woff2",
            "application/vnd.sqlite3",
            "application/vnd.pmtiles",
            "application/vnd.apache.parquet",
            "image/tiff",
            "application/zip",
            "application/epub+zip",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        ] {
            assert!(is_packed(essence), "{essence}");
        }
    }
}
