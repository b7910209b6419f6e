//! The flags about CGI scripts. A configuration file has the keys of `[[site.mount]]` for them.

use super::{Default, Directive, Kind, site_flag};

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        repeatable: true,
        default: Default::Nothing("no scripts"),
        brief: "Run the CGI scripts of a folder, or a single one",
        long: "`--cgi /srv/cgi-bin` runs the scripts of the folder for `/cgi-bin` and all paths \
               below. `--cgi /run=/srv/scripts` gives another path. The files must be executable. \
               In a configuration file, write `[[site.mount]]` with `cgi`.",
        ..site_flag("cgi", Kind::ScriptFolder)
    },
    Directive {
        default: Default::Auto("the user of the server, unless it is root"),
        brief: "The user that CGI scripts run as; a server of root needs it",
        long: "A name or a number of `/etc/passwd`.",
        ..site_flag("cgi-user", Kind::Account)
    },
    Directive {
        default: Default::Auto("the folder of the scripts for a server that is started as root"),
        brief: "The root directory of CGI scripts",
        long: "Scripts see nothing outside of it, so their interpreters and libraries have to be \
               in it. `/` shows them all files that their user may read.",
        ..site_flag("cgi-chroot", Kind::Folder)
    },
];
