#!/bin/sh
# Makes the archives of this folder again, and records the responses of kawipiko's server from them.
# README.md describes the purpose of each of them.
#
#   make.sh build FOLDER    kawipiko's archiver and server, into FOLDER
#   make.sh archives FOLDER the archives, by the archiver in FOLDER
#   make.sh record FOLDER   ../responses.tsv, by the server in FOLDER
#
# Needs git, Go, curl (with brotli), sha256sum and awk.
set -eu
LC_ALL=C
export LC_ALL

commit=8042f50
made=$(cd "$(dirname "$0")" && pwd)
tests=$(dirname "$made")
bin=$(mkdir -p "${2:?a folder}" && cd "$2" && pwd)

# The source of kawipiko is under the AGPL, so it stays outside of this source tree.
build() {
    test -d "$bin/kawipiko" || git clone https://github.com/volution/kawipiko "$bin/kawipiko"
    git -C "$bin/kawipiko" checkout --quiet --force "$commit"
    cd "$bin/kawipiko/sources"
    go mod edit -replace "github.com/lucas-clemente/quic-go=$made/quic-stub"
    for tool in archiver server; do
        go build -mod=mod -o "$bin/kawipiko-$tool" "./cmd/$tool.go"
    done
}

# Two folders with files that a checkout could not contain: names that some systems do not allow,
# links.
sources() {
    rm -rf "$bin/sources"
    mkdir -p "$bin/sources"
    cp -R "$tests/site" "$bin/sources/site"
    odd "$bin/sources/odd"
    app "$bin/sources/app"
    far "$bin/sources/far"
}

file() {
    mkdir -p "$(dirname "$1")"
    printf "$2" > "$1"
}

page() {
    file "$1" "<!doctype html>\n<title>$2</title>\n"
}

# Names and contents that the two servers might see differently.
odd() {
    mkdir -p "$1"
    cd "$1"
    # Names with suffixes that may be omitted, and several index files.
    for name in htm.htm xhtml.xhtml xht.xht txt.txt dir.html dir/index.html UPPER.HTML; do
        page "$name" "$name"
    done
    page both/index.html 'second'
    file both/_index.json '{"first": true}\n'
    file xml/index.xml '<first/>\n'
    file text/_index.txt 'first\n'
    page text/index.htm 'second'
    # Equal bytes: kawipiko uses the type and status of the first file that has them.
    file same/a.css 'a { }\n'
    file same/b.js 'a { }\n'
    page copy/index.html 'copy'
    page copy/_404.html 'copy'
    file empty/a.css ''
    file empty/b.js ''
    file empty/c ''
    # Pages of whole folders by the beginning of their names, and one that is a folder.
    file tiles/200.png '\211PNG\r\n\032\n'
    file tiles/1.png '\211PNG\r\n\032\n1'
    file lost/404.txt 'nothing here\n'
    file lost/twin.txt 'nothing here\n'
    page tree/_200.d/leaf.html 'leaf'
    page tree/real.html 'real'
    # Names with a meaning in Pinion and none in kawipiko.
    file _headers '/*\n  X-A: 1\n'
    page _500.html 'five hundred'
    file page.lua 'return 1\n'
    page page.dyn.html 'dynamic'
    file secret.priv.txt 'not secret\n'
    file pinion.toml 'listen = []\n'
    # Types without an extension, and those that differ between the two tables.
    page html 'no extension'
    file bytes '\001\002\003'
    file words 'only words\n'
    for name in a.wasm b.md c.webmanifest d.svg e.mjs f.xml g.json h.ico i.bin j.JSON; do
        file "types/$name" "$name\n"
    done
    # Names that are escaped in a URL, or missing from it.
    for name in 'two words' 'a+b' 'a;b' "it's" '100%%' 'q?a' '%%41'; do
        file "names/$(printf "$name").txt" "$name\n"
    done
    # Excluded files, and links.
    for name in .hidden a~ '#a' b.log c.tmp d.lock Thumbs.db; do
        file "skipped/$name" 'x\n'
    done
    ln -s htm.htm linked.html
    ln -s dir links
    mkdir loop
    ln -s ../loop loop/again
    page loop/a.html 'loop'
    cat > _redirects << 'LINES'
/to-folder       /dir/                  301
/to-part         /htm#part              302
/to-query        /txt?x=1               307
/to-relative     htm.htm                302
/to-other        //example.org/x        301
/to-mail         mailto:a@example.org   303
/htm             /txt                   301
/%C3%BC          /names/%C3%BC.txt      308
/Case            /txt                   301
/slash/          /txt                   301
/here/           /here                  302
/deep/*          /txt                   301
/deep/er/*       /htm                   302
/deep/er/one     /xht                   303
/both/*          https://example.org/   308
://h.example/deep/*    /xht             303
://h.example/deep/two  /htm             301
://h.example:81/only   /txt             301
://H.example/upper     /txt             302
://[::1]/six           /txt             301
LINES
}

# An application of one page, and hosts that lead to it.
app() {
    mkdir -p "$1"
    cd "$1"
    page _wildcard.html 'application'
    page index.html 'start'
    file app.js 'start()\n'
    page old/_404.html 'gone'
    page keep/index.html 'keep'
    cat > _redirects << 'LINES'
/*                      /never        301
/old/new/*              /keep/        302
/keep/*                 /             307
://www.example.org/*    https://example.org/  301
LINES
}

# Names beyond ASCII. kawipiko cannot redirect to them, so it fails unless a flag prevents that.
far() {
    mkdir -p "$1"
    cd "$1"
    for name in 'ü' '\377'; do
        file "$(printf "$name").txt" "$name\n"
    done
    page '日本/index.html' 'index'
    printf '/old /%%C3%%BC 301\n' > _redirects
}

# NAME of an archive, its source, and the flags.
archives() {
    sources
    while read -r name source flags; do
        test -n "$name" || continue
        # shellcheck disable=SC2086
        "$bin/kawipiko-archiver" --sources "$bin/sources/$source" \
            --archive "$made/$source-$name.cdb" $flags
    done << 'TABLE'
identity   site --include-etag --include-folder-listing
gzip       site --include-etag --include-folder-listing --compress gzip --compress-level 9
zopfli     site --include-etag --include-folder-listing --compress zopfli
unlisted   site --include-etag --include-folder-listing --exclude-paths-index
br         site --exclude-cache --compress br
plain      site
no-index   site --exclude-index --include-folder-listing --compress br
no-strip   site --exclude-strip --compress gz --compress-level 1
no-slash   site --exclude-slash-redirects --compress brotli --compress-level -2
bare       site --exclude-index --exclude-strip --exclude-slash-redirects --exclude-cache
plain      odd
listed     odd  --include-folder-listing --include-etag --compress zopfli --compress-level 1
bare       odd  --exclude-index --exclude-strip --exclude-slash-redirects --compress none
plain      app
no-slash   app  --exclude-slash-redirects --exclude-paths-index --compress identity
no-slash   far  --exclude-slash-redirects --include-etag
TABLE
}

# One line for each response. Equal responses of several archives are joined.
record() {
    port=18080
    for archive in "$made"/*.cdb; do
        name=$(basename "$archive" .cdb)
        "$bin/kawipiko-server" --archive "$archive" --archive-mmap --quiet \
            --bind "127.0.0.1:$port" --bind-2 "127.0.0.1:$((port + 1))" 2> /dev/null &
        server=$!
        trap 'kill $server' EXIT
        until curl --silent --output /dev/null "http://127.0.0.1:$port/"; do sleep 0.1; done
        grep "^${name%%-*}[[:space:]]" "$tests/requests.tsv" | while read -r _ host target; do
            answer "$name" bind "$port" "$host" "$target"
            # The second address parses paths differently, and knows no hosts.
            case $host$target in -*%*) answer "$name" bind-2 $((port + 1)) - "$target" ;; esac
        done
        kill "$server"
        trap - EXIT
        wait "$server" || true
    done | merged > "$tests/responses.tsv"
}

# NAME BIND PORT HOST TARGET: status, Location, type and digest of the content, decoded.
answer() {
    named=$4
    test "$named" != - || named=localhost
    curl --silent --globoff --path-as-is --compressed --header "Host: $named" \
        --dump-header "$bin/head" --output "$bin/body" "http://127.0.0.1:$3$5"
    digest=$(sha256sum < "$bin/body" | cut -c -16)
    test -s "$bin/body" || digest=-
    tr -d '\r' < "$bin/head" | awk -v row="$1\t$2\t$4\t$5" -v digest="$digest" '
        NR == 1 { status = $2 }
        { name = tolower($1); value = $0; sub(/^[^ ]* /, "", value) }
        name == "location:" { location = value }
        name == "content-type:" { type = value }
        name == "x-frame-options:" { own = 1 }
        END {
            # Built-in pages lack the fields for security.
            if (!own) digest = "built-in"
            if (location != "") type = ""
            gsub(/; */, ";", type)
            printf "%s\t%s\t%s\t%s\t%s\n", row, status, location ? location : "-",
                type ? type : "-", digest
        }'
}

# The names of archives with the same response, in front of it.
merged() {
    awk -F '\t' '
        { name = $1; sub(/^[^\t]*\t/, ""); if (!($0 in names)) order[++rows] = $0 }
        { names[$0] = names[$0] (names[$0] ? " " : "") name }
        END { for (row = 1; row <= rows; row++) print names[order[row]] "\t" order[row] }'
}

"$1"
