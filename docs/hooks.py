"""Hooks of MkDocs: formulas, inline pictures that follow the theme, and links that leave docs/."""

import re
from pathlib import Path

from formulas import draw
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
FORMULA = re.compile(r"^\$\$\n(.*?)\n\$\$$", re.DOTALL | re.MULTILINE)
CELL = re.compile(r"<td>.*?</td>", re.DOTALL)  # where a pipe has to be escaped, also in code
LINK_BESIDE = re.compile(r"\]\((?!docs/)([\w.-]+)(?=[)#])")
OPTION = re.compile(r"<code>(?=--?[^<]{1,26}</code>)")  # short enough for a phone
PICTURE = re.compile(r'<img [^>]*src="[^"]*pictures/([\w-]+\.svg)"[^>]*>')


def on_files(files, config):
    """Add the files of the repository that pages link to, and those that these link to."""
    pages = files.documentation_pages()
    names = {name for page in pages for name in link_out(page).findall(page.content_string)}
    for name in [name for name in names if name.endswith(".md")]:
        names.update(LINK_BESIDE.findall((ROOT / name).read_text("utf-8")))
    for name in names:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def link_out(file):
    """Compile the pattern of links that leave docs/: a page in a folder has to go up once more."""
    up = "../" * file.src_uri.count("/")
    return re.compile(rf"\]\({up}\.\./([^)#]+)")


def on_page_markdown(markdown, page, **_):
    """Convert formulas, and let links into and out of docs/ lead to the copies in the site."""
    markdown = FORMULA.sub(lambda found: draw(found[1], "block"), markdown)
    if not (ROOT / "docs" / page.file.src_uri).exists():  # a page from above docs/: CONTRIBUTING
        return markdown.replace("](docs/", "](")
    up = "../" * page.file.src_uri.count("/")
    return link_out(page.file).sub(rf"]({up}\1", markdown)


def on_page_content(html, **_):
    """Inline pictures, which then follow the theme of the page, and keep options in one line."""
    html = CELL.sub(lambda found: found[0].replace(r"\|", "|"), html)
    html = OPTION.sub(r'<code class="option">', html)
    folder = ROOT / "docs" / "pictures"
    return PICTURE.sub(lambda found: (folder / found[1]).read_text("utf-8"), html)
