//! The flags about Python applications. A configuration file has the keys of `[[site.mount]]` for
//! them.

use super::{Default, Directive, Kind, site_flag};

/// The rows, in the order of the help.
pub(crate) const ROWS: &[Directive] = &[
    Directive {
        repeatable: true,
        default: Default::Nothing("no application"),
        brief: "Run a Python application (WSGI), such as Flask or Django",
        long: "`--wsgi app:app` runs the object `app` of the module `app` for every path that no \
               file of the site responds to, `--wsgi /api=app:app` for `/api` and all paths below. \
               As the path, `app.py` or a folder with `manage.py` needs no flag.",
        ..site_flag("wsgi", Kind::PythonApplication)
    },
    Directive {
        repeatable: true,
        default: Default::Nothing("no application"),
        brief: "Run a Python application (ASGI), such as FastAPI or Starlette",
        long: "Named as for `--wsgi`: `--asgi main:app`.",
        ..site_flag("asgi", Kind::PythonApplication)
    },
    Directive {
        default: Default::Off,
        brief: "The object that was named returns the Python application",
        long: "It is called without arguments when a process starts: `create_app`.",
        ..site_flag("python-factory", Kind::Switch)
    },
    Directive {
        default: Default::Auto("the folder of the file, or the working directory"),
        brief: "The folder of the Python application",
        long: "Modules are found in it, and it is the working directory of the application.",
        ..site_flag("python-folder", Kind::Folder)
    },
    Directive {
        default: Default::Auto(
            "VIRTUAL_ENV, the folder `.venv` or `venv` of the application, or python3",
        ),
        brief: "The Python interpreter, or the folder of a virtual environment",
        long: "CPython 3.8 or later, or PyPy.",
        ..site_flag("python", Kind::Path)
    },
    Directive {
        default: Default::Value("1"),
        brief: "Processes of the Python application",
        long: "With more than one, global variables of the application are not shared.",
        ..site_flag("python-processes", Kind::Number { min: 1, max: 32, unit: "" })
    },
    Directive {
        default: Default::Value("1"),
        brief: "Threads of each process of the Python application (WSGI)",
        long: "Each thread has one request at a time.",
        ..site_flag("python-threads", Kind::Number { min: 1, max: 128, unit: "" })
    },
    Directive {
        default: Default::Auto("the nice value of the server"),
        brief: "The nice value of the processes of the Python application",
        long: "With 5, others on the same core get three times as much of it while both are busy.",
        ..site_flag("python-nice", Kind::Nice)
    },
    Directive {
        default: Default::Auto("the user of the server, unless it is root"),
        brief: "The user that Python applications run as; a server of root needs it",
        long: "A name or a number of `/etc/passwd`.",
        ..site_flag("python-user", Kind::Account)
    },
];
