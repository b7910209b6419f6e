//! The flags and keys about PHP that the server starts for a site.

use super::config_file_tables::Table;
use super::{Default, Directive, Kind, site_flag};

/// Returns a row of `[[site]]` that is a flag, too, with the properties that all of them share.
const fn row(name: &'static str, key: &'static str, kind: Kind) -> Directive {
    Directive { file: Some(Table::Site.key(key)), ..site_flag(name, kind) }
}

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        default: Default::Off,
        brief: "Do not run the PHP scripts of the folder",
        long: "By default PHP runs if the folder has an index.php, or if a flag or key about PHP \
               is given. Sources of PHP are never sent, whether PHP runs or not.",
        ..row("no-php", "php", Kind::Switch)
    },
    Directive {
        default: Default::Auto("the newest php-fpm in `PATH` and the usual folders"),
        brief: "The program that runs PHP",
        long: "Pinion starts it, and stops it at the end.",
        ..row("php-fpm", "php-fpm", Kind::Path)
    },
    Directive {
        default: Default::Auto("the user of the server"),
        brief: "The user that PHP runs as; a server that runs as root needs it",
        long: "A name or a number of `/etc/passwd`. Only root can start PHP as another user.",
        ..row("php-user", "php-user", Kind::Account)
    },
    Directive {
        default: Default::Auto("8 for each core, at most one for each 128 MiB of memory"),
        brief: "The most processes that run PHP",
        long: "Each responds to one request at a time; further requests wait. The memory of PHP is \
               not part of the memory that Pinion reports.",
        ..row("php-processes", "php-processes", Kind::Number { min: 1, max: 10_000, unit: "" })
    },
    Directive {
        default: Default::Value("16M"),
        brief: "The most content of a request for PHP, such as an upload",
        long: "It is stored before PHP gets the request, so that a slow client does not occupy a \
               process. `upload_max_filesize` and `post_max_size` of PHP are set to it.",
        ..row("php-upload-limit", "php-upload-limit", Kind::Size)
    },
    Directive {
        default: Default::Off,
        brief: "Pass the header `Authorization` to PHP",
        long: "It has the password of the user. Without it PHP gets the name of a user that Pinion \
               has verified, as `REMOTE_USER`.",
        ..row("php-pass-authorization", "php-pass-authorization", Kind::Switch)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("no files are sent"),
        brief: "A folder with the files that scripts may name with `X-Sendfile`",
        long: "Pinion sends such a file in place of the content of the response. A path in front \
               of the folder is for `X-Accel-Redirect`. At most 64.",
        ..row("php-send-files", "php-send-files", Kind::SentFolder)
    },
    Directive {
        repeatable: true,
        default: Default::Value("wp-content/uploads"),
        brief: "A folder in which no PHP scripts are run",
        long: "Name the folders that the application stores uploaded files in.",
        ..row("no-exec", "no-exec", Kind::SiteFolder)
    },
];
