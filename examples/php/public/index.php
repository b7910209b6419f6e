<?php
// A guest book with photos: users log in, write entries and upload pictures.
// Run it: pinion serve examples/php/pinion.toml

const UPLOADS = __DIR__ . '/uploads';
const TYPES = ['image/png' => 'png', 'image/jpeg' => 'jpg', 'image/gif' => 'gif'];

session_start(['cookie_httponly' => true, 'cookie_samesite' => 'Lax', 'cache_limiter' => '']);

function database(): PDO
{
    $folder = dirname(__DIR__) . '/data';
    if (!is_dir($folder)) {
        mkdir($folder, 0700);
    }
    $database = new PDO("sqlite:$folder/entries.sqlite");
    $database->exec('PRAGMA journal_mode = WAL; PRAGMA busy_timeout = 5000');
    $database->exec('CREATE TABLE IF NOT EXISTS entries
        (id INTEGER PRIMARY KEY, author TEXT NOT NULL, text TEXT NOT NULL, picture TEXT)');
    return $database;
}

function page(string $title, string $content, int $status = 200): never
{
    http_response_code($status);
    header('Content-Type: text/html; charset=utf-8');
    header('Cache-Control: no-store');
    $title = htmlspecialchars($title);
    echo "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>$title</title>"
        . "<link rel=\"stylesheet\" href=\"/style.css\"><h1>$title</h1>$content</html>\n";
    exit;
}

function redirect(string $path): never
{
    header("Location: $path", true, 303);
    exit;
}

/** Returns the path of the stored picture, or null if none was uploaded. */
function stored_picture(): ?string
{
    $file = $_FILES['picture'] ?? null;
    if ($file === null || $file['error'] === UPLOAD_ERR_NO_FILE) {
        return null;
    }
    $type = $file['error'] === UPLOAD_ERR_OK ? mime_content_type($file['tmp_name']) : '';
    if (!isset(TYPES[$type])) {
        page('Not a picture', '<p>PNG, JPEG and GIF are possible.</p>', 422);
    }
    if (!is_dir(UPLOADS)) {
        mkdir(UPLOADS, 0755);
    }
    $name = bin2hex(random_bytes(8)) . '.' . TYPES[$type];
    move_uploaded_file($file['tmp_name'], UPLOADS . "/$name");
    return "/uploads/$name";
}

function entry(array $row): string
{
    $picture = $row['picture'] === null ? '' : "<img src=\"{$row['picture']}\" alt=\"\">";
    return "<article><h2><a href=\"/entry/{$row['id']}\">" . htmlspecialchars($row['author'])
        . '</a></h2><p>' . nl2br(htmlspecialchars($row['text'])) . "</p>$picture</article>";
}

$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$user = $_SESSION['user'] ?? null;
$route = "{$_SERVER['REQUEST_METHOD']} $path";

if (preg_match('#^(?:GET|HEAD) /entry/([0-9]{1,9})$#', $route, $match)) {
    $statement = database()->prepare('SELECT * FROM entries WHERE id = ?');
    $statement->execute([$match[1]]);
    $row = $statement->fetch(PDO::FETCH_ASSOC);
    $row ? page("Entry $match[1]", entry($row)) : page('Not found', '', 404);
}
switch ($route) {
    case 'GET /':
    case 'HEAD /':
        $rows = database()->query('SELECT * FROM entries ORDER BY id DESC LIMIT 50');
        $form = $user === null
            ? '<form method="post" action="/login"><input name="user" required><button>Log in</button></form>'
            : '<form method="post" action="/entries" enctype="multipart/form-data">'
                . '<textarea name="text" required></textarea><input type="file" name="picture">'
                . '<button>Write</button></form>';
        page('Guest book', $form . implode('', array_map('entry', $rows->fetchAll(PDO::FETCH_ASSOC))));
    case 'POST /login':
        session_regenerate_id(true);
        $_SESSION['user'] = substr((string) ($_POST['user'] ?? ''), 0, 40) ?: 'somebody';
        redirect('/');
    case 'POST /entries':
        if ($user === null) {
            page('Log in first', '<p><a href="/">Back</a></p>', 403);
        }
        $statement = database()->prepare('INSERT INTO entries (author, text, picture) VALUES (?, ?, ?)');
        $statement->execute([$user, (string) ($_POST['text'] ?? ''), stored_picture()]);
        redirect('/');
    default:
        page('Not found', '<p><a href="/">Home</a></p>', 404);
}
