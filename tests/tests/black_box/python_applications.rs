//! Applications of well-known frameworks, as their users have them: Flask, Bottle, FastAPI,
//! Starlette and Django, each served by its path alone.

use pinion_tests::external_programs::{output, python_package};
use pinion_tests::request::Request;
use pinion_tests::server::{Server, Start, run};
use pinion_tests::temporary_folder::Folder;
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Returns a folder that other users may read, with packages in it.
pub(crate) fn folder_with(name: &str, packages: &[&str]) -> Folder {
    let folder = Folder::new(name);
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    for package in packages {
        let mut copy = Command::new("cp");
        copy.arg("-r").arg(python_package(package)).arg(folder.path());
        assert!(output(&mut copy).status.success(), "{package}");
    }
    folder
}

/// Returns a server of an application, with the interpreter of the system.
pub(crate) fn application(path: &Path) -> Start {
    let user: &[&str] = if geteuid().is_root() { &["--python-user", "nobody"] } else { &[] };
    Start::site(path).flags(&["--python", "/usr/bin/python3"]).flags(user)
}

fn serve(path: &Path, flags: &[&str]) -> Server {
    application(path).flags(flags).start()
}

pub(crate) const FLASK: [&str; 8] = [
    "flask",
    "werkzeug",
    "jinja2",
    "markupsafe",
    "itsdangerous",
    "blinker",
    "click",
    "typing_extensions.py",
];

const FASTAPI: [&str; 12] = [
    "fastapi",
    "starlette",
    "pydantic",
    "pydantic_core",
    "anyio",
    "idna",
    "annotated_doc",
    "annotated_types",
    "typing_inspection",
    "typing_extensions.py",
    "python_multipart",
    "opentelemetry",
];

#[test]
fn flask_is_served_by_its_file() {
    let folder = folder_with("python-flask", &FLASK);
    folder.write(
        "app.py",
        r#"
from flask import Flask, Response, request, session, redirect
app = Flask(__name__)
app.secret_key = 'x'
@app.route('/')
def index():
    return '<p>Hello, %s!</p>' % session.get('name', 'World')
@app.route('/name', methods=['POST'])
def name():
    session['name'] = request.form['name']
    return redirect('/')
@app.route('/upload', methods=['PUT'])
def upload():
    return {'bytes': len(request.get_data()), 'address': request.remote_addr}
@app.route('/stream')
def stream():
    return Response(('%d\n' % number for number in range(1000)), mimetype='text/plain')
@app.route('/fails')
def fails():
    raise ValueError('no luck')
"#,
    );
    let server = serve(&folder.join("app.py"), &[]);
    assert_eq!(server.get("/").text(), "<p>Hello, World!</p>");
    assert_eq!(status(&server, "/none"), "404");
    let form = Request::new("POST", "/name")
        .field("Content-Type", "application/x-www-form-urlencoded")
        .body(b"name=J%C3%BCrgen");
    let response = server.exchange(&form);
    assert_eq!((response.status, response.field("Location")), (302, Some("/")), "{response}");
    let cookie = response.field("Set-Cookie").and_then(|cookie| cookie.split(';').next());
    let request = Request::get("/").field("Cookie", cookie.expect("a cookie"));
    assert_eq!(server.exchange(&request).text(), "<p>Hello, Jürgen!</p>");
    let upload = Request::new("PUT", "/upload").chunked(&vec![7; 300_000], 10_000);
    let text = server.exchange(&upload).text().to_owned();
    assert!(text.contains("300000") && text.contains("127.0.0.1"), "{text}");
    let lines: String = (0..1000).map(|number| format!("{number}\n")).collect();
    assert_eq!(server.get("/stream").text(), lines);
    assert_eq!(status(&server, "/fails"), "500");
    server.wait_for_line(0, |line| line.contains("ValueError: no luck"));
    server.stop();
}

/// Each of two mounts has an application, and neither sets whether it is WSGI or ASGI.
#[test]
fn a_mount_asks_its_application_for_the_interface() {
    let folder = folder_with("python-interfaces", &[]);
    folder.write(
        "apps.py",
        r#"
def called(environ, start):
    start('200 OK', [('Content-Type', 'text/plain')])
    return [('%(REMOTE_ADDR)s %(REMOTE_PORT)s' % environ).encode()]
async def awaited(scope, receive, send):
    await send({'type': 'http.response.start', 'status': 200,
                'headers': [(b'content-type', b'text/plain')]})
    await send({'type': 'http.response.body', 'body': b'%s %d' % (
        scope['client'][0].encode(), scope['client'][1])})
"#,
    );
    folder.write("public/index.html", "home");
    let user = if geteuid().is_root() { "python-user = \"nobody\"\n" } else { "" };
    let mount = |path: &str, name: &str| {
        format!(
            "[[site.mount]]\npath = \"{path}\"\npython-application = \"apps:{name}\"\n\
             python = \"/usr/bin/python3\"\npython-folder = {:?}\n{user}",
            folder.path()
        )
    };
    let mounts = mount("/wsgi", "called") + &mount("/asgi", "awaited");
    folder.write("p.toml", format!("[[site]]\npath = \"public\"\n{mounts}"));
    let server = Start::site(&folder.join("p.toml")).start();
    for path in ["/wsgi", "/asgi"] {
        let mut client = server.client();
        let response = client.exchange(&Request::get(path));
        let expected = format!("127.0.0.1 {}", client.local_port());
        assert_eq!((response.status, response.text()), (200, &*expected), "{path}");
    }
    server.stop();
}

#[test]
fn a_factory_is_named_by_a_flag() {
    let folder = folder_with("python-factory", &FLASK);
    folder.write(
        "shop.py",
        "from flask import Flask\n\
         def create_app():\n\
         \x20   app = Flask(__name__)\n\
         \x20   app.add_url_rule('/', view_func=lambda: 'made')\n\
         \x20   return app\n",
    );
    folder.write("public/file.txt", "a file");
    let folder_flag = folder.join("").display().to_string();
    let flags = ["--wsgi", "shop:create_app", "--python-factory", "--python-folder", &folder_flag];
    let server = serve(&folder.join("public"), &flags);
    assert_eq!(server.get("/").text(), "made");
    assert_eq!(server.get("/file.txt").text(), "a file");
    server.stop();
}

#[test]
fn bottle_is_served_by_its_file() {
    let folder = folder_with("python-bottle", &["bottle.py"]);
    folder.write(
        "main.py",
        "import bottle\n\
         @bottle.route('/hello/<name>')\n\
         def hello(name):\n\
         \x20   return bottle.template('<b>{{name}}</b>', name=name)\n\
         app = bottle.default_app()\n",
    );
    let server = serve(&folder.join("main.py"), &[]);
    assert_eq!(server.get("/hello/%3Cyou%3E").text(), "<b>&lt;you&gt;</b>");
    server.stop();
}

#[test]
fn fastapi_is_served_by_its_file() {
    let folder = folder_with("python-fastapi", &FASTAPI);
    folder.write(
        "main.py",
        r#"
from contextlib import asynccontextmanager
from fastapi import FastAPI, UploadFile, BackgroundTasks
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
state = {}
@asynccontextmanager
async def lifespan(app):
    state['is_ready'] = True
    yield
    print('the application has ended')
app = FastAPI(lifespan=lifespan)
class Item(BaseModel):
    name: str
    price: float
@app.get('/items/{number}')
async def item(number: int, q: str = ''):
    return {'number': number, 'q': q, **state}
@app.get('/thread')
def in_thread():
    return 'from a thread'
@app.post('/items')
async def add(item: Item, background: BackgroundTasks):
    background.add_task(print, 'added', item.name)
    return item
@app.post('/upload')
async def upload(file: UploadFile):
    return {'name': file.filename, 'bytes': len(await file.read())}
@app.get('/stream')
async def stream():
    async def pieces():
        for number in range(100):
            yield 'piece %d\n' % number
    return StreamingResponse(pieces(), media_type='text/plain')
@app.get('/fails')
async def fails():
    raise ValueError('no luck')
"#,
    );
    let server = serve(&folder.join("main.py"), &[]);
    let text = server.get("/items/7?q=%C3%A4").text().to_owned();
    assert_eq!(text, "{\"number\":7,\"q\":\"ä\",\"is_ready\":true}");
    assert_eq!(status(&server, "/items/x"), "422");
    assert_eq!(server.get("/thread").text(), "\"from a thread\"");
    let item = Request::new("POST", "/items")
        .field("Content-Type", "application/json")
        .body(br#"{"name": "tea", "price": 1.5}"#);
    assert_eq!(server.exchange(&item).text(), r#"{"name":"tea","price":1.5}"#);
    server.wait_for_line(0, |line| line.contains("added tea"));
    let content = [
        &b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n\r\n"[..],
        &vec![b'x'; 200_000],
        b"\r\n--b--\r\n",
    ]
    .concat();
    let upload = Request::new("POST", "/upload")
        .field("Content-Type", "multipart/form-data; boundary=b")
        .body(&content);
    assert_eq!(server.exchange(&upload).text(), r#"{"name":"a.bin","bytes":200000}"#);
    let lines: String = (0..100).map(|number| format!("piece {number}\n")).collect();
    assert_eq!(server.get("/stream").text(), lines);
    assert_eq!(status(&server, "/fails"), "500");
    assert!(server.get("/openapi.json").text().contains("\"/items/{number}\""));
    let words = server.last_words();
    assert!(words.iter().any(|line| line.contains("the application has ended")), "{words:?}");
}

/// A Django project with a page, a form, an administration, static files and media.
fn django(folder: &Folder) {
    folder.write(
        "manage.py",
        "import os, sys\n\
         os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n\
         from django.core.management import execute_from_command_line\n\
         execute_from_command_line(sys.argv)\n",
    );
    folder.write("shop/__init__.py", "");
    folder.write(
        "shop/settings.py",
        r#"
from pathlib import Path
BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = 'x'
ALLOWED_HOSTS = ['*']
ROOT_URLCONF = 'shop.urls'
INSTALLED_APPS = ['django.contrib.' + name for name in
    ['admin', 'auth', 'contenttypes', 'sessions', 'messages', 'staticfiles']]
MIDDLEWARE = [
    'django.middleware.security.SecurityMiddleware',
    'django.contrib.sessions.middleware.SessionMiddleware',
    'django.middleware.csrf.CsrfViewMiddleware',
    'django.contrib.auth.middleware.AuthenticationMiddleware',
    'django.contrib.messages.middleware.MessageMiddleware',
]
TEMPLATES = [{'BACKEND': 'django.template.backends.django.DjangoTemplates', 'APP_DIRS': True,
    'OPTIONS': {'context_processors': ['django.template.context_processors.request',
        'django.contrib.auth.context_processors.auth',
        'django.contrib.messages.context_processors.messages']}}]
DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3',
    'NAME': BASE_DIR / 'db/db.sqlite3'}}
STATIC_URL = 'static/'
STATIC_ROOT = BASE_DIR / 'static'
MEDIA_URL = 'media/'
MEDIA_ROOT = BASE_DIR / 'media'
"#,
    );
    folder.write(
        "shop/urls.py",
        r#"
from django.contrib import admin
from django.core.files.storage import default_storage
from django.http import HttpResponse, StreamingHttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
def index(request):
    return HttpResponse('hello from %s' % request.get_host())
@csrf_exempt
def upload(request):
    return HttpResponse(default_storage.save('a.txt', request.FILES['file']))
def stream(request):
    return StreamingHttpResponse(('%d\n' % n for n in range(100)), content_type='text/plain')
urlpatterns = [path('', index), path('upload', upload), path('stream', stream),
    path('admin/', admin.site.urls)]
"#,
    );
    folder.write(
        "shop/wsgi.py",
        "import os\n\
         from django.core.wsgi import get_wsgi_application\n\
         os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n\
         application = get_wsgi_application()\n",
    );
    folder.write("db/.keep", "");
    folder.write("media/.keep", "");
    for arguments in [
        &["migrate", "-v0"][..],
        &["collectstatic", "--noinput", "-v0"],
        &["createsuperuser", "--noinput", "--username", "ada", "--email", "ada@example.org"],
    ] {
        let mut manage = Command::new("/usr/bin/python3");
        manage.arg("manage.py").args(arguments).current_dir(folder.path());
        let ended = output(manage.env("DJANGO_SUPERUSER_PASSWORD", "secret"));
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    // The application runs as another user if the tests run as root.
    for path in ["db", "media", "db/db.sqlite3"] {
        let mode = Permissions::from_mode(0o777);
        fs::set_permissions(folder.join(path), mode).expect("permissions");
    }
}

#[test]
fn a_django_project_is_served_by_its_folder() {
    let folder = folder_with("python-django", &["django", "asgiref", "sqlparse"]);
    django(&folder);
    let server = serve(folder.path(), &[]);
    let line = server.wait_for_line(0, |line| line.contains("Django project: "));
    assert!(line.contains("wsgi shop.wsgi:application, /static from "), "{line}");
    assert!(server.get("/").text().starts_with("hello from "));
    let css = server.get("/static/admin/css/base.css");
    assert_eq!(
        (css.status, css.field("Content-Type")),
        (200, Some("text/css; charset=utf-8")),
        "{css}"
    );
    assert_eq!(status(&server, "/manage.py"), "404", "the source is no file of the site");
    assert_eq!(status(&server, "/shop/settings.py"), "404");

    // The administration: the form, its token, the session.
    let form = server.get("/admin/login/");
    let cookie = |response: &pinion_tests::response::Response, name: &str| {
        let found = response.values("Set-Cookie").find(|cookie| cookie.starts_with(name));
        found.and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_owned()
    };
    let token = cookie(&form, "csrftoken=");
    let (_, hidden) = form.text().split_once("csrfmiddlewaretoken\" value=\"").expect("a token");
    let (hidden, _) = hidden.split_once('"').expect("a token");
    let content = format!("csrfmiddlewaretoken={hidden}&username=ada&password=secret&next=/admin/");
    let login = Request::new("POST", "/admin/login/")
        .field("Content-Type", "application/x-www-form-urlencoded")
        .field("Cookie", &token)
        .body(content.as_bytes());
    let response = server.exchange(&login);
    assert_eq!((response.status, response.field("Location")), (302, Some("/admin/")), "{response}");
    let session = cookie(&response, "sessionid=");
    let page = server.exchange(&Request::get("/admin/").field("Cookie", session));
    assert!(page.text().contains("Site administration"), "{page}");

    let content = b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
                    Content-Type: text/plain\r\n\r\nwritten\r\n--b--\r\n";
    let upload = Request::new("POST", "/upload")
        .field("Content-Type", "multipart/form-data; boundary=b")
        .body(content);
    let name = server.exchange(&upload).text().to_owned();
    assert_eq!(server.get(&format!("/media/{name}")).text(), "written", "media are live");
    let lines: String = (0..100).map(|number| format!("{number}\n")).collect();
    assert_eq!(server.get("/stream").text(), lines);
    server.stop();
}

/// An application that is embedded in pages of other hosts has no folder with rules, so a flag
/// leaves the security headers out.
#[test]
fn without_a_folder_there_are_no_security_headers() {
    let folder = folder_with("python-security", &["bottle.py"]);
    folder.write(
        "app.py",
        "import bottle\n\napp = bottle.Bottle()\n\n\n@app.get('/')\ndef root():\n    return 'ok'\n",
    );
    let server = serve(&folder.join("app.py"), &[]);
    assert_eq!(server.get("/").field("X-Frame-Options"), Some("SAMEORIGIN"));
    server.stop();
    let server = serve(&folder.join("app.py"), &["--no-security-headers"]);
    let response = server.get("/");
    assert_eq!((response.text(), response.field("X-Frame-Options")), ("ok", None));
    server.stop();
}

#[test]
fn a_published_application_folder_is_refused() {
    let folder = folder_with("python-published", &[]);
    folder.write("app.py", "def app(environ, start_response):\n    return []\n");
    let path = folder.join("");
    let path = path.to_str().expect("a path");
    let mut arguments = vec!["serve", path, "--wsgi", "app:app", "--python-folder", path];
    if geteuid().is_root() {
        arguments.extend(["--python-user", "nobody"]);
    }
    let ended = run(&arguments);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("its source would be published"), "{}", ended.stderr);
}

/// Returns the status of a response of an application, which does not keep Pinion's rules for
/// responses.
fn status(server: &Server, target: &str) -> String {
    let mut curl = server.curl();
    curl.args(["-s", "-o", "/dev/null", "-w", "%{http_code}"]).arg(server.url(target));
    String::from_utf8(output(&mut curl).stdout).expect("a number")
}
