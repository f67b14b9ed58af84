"""What the site needs beside MkDocs: pictures that follow its colours, links that leave docs/."""

import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
LINK_OUT = re.compile(r"\]\(\.\./([^)#]+)")
PICTURE = re.compile(r'<img [^>]*src="[^"]*pictures/([\w-]+\.svg)"[^>]*>')


def on_files(files, config):
    """Take the files of the repository that pages link to into the site."""
    linked = {name for page in files.documentation_pages() for name in links_out(page)}
    for name in linked:
        files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def links_out(page):
    return LINK_OUT.findall(page.content_string)


def on_page_markdown(markdown, **_):
    """Let a link that leaves docs/ lead to the copy in the site."""
    return LINK_OUT.sub(r"](\1", markdown)


def on_page_content(html, **_):
    """Put pictures into the page itself: an image could not know whether the page is dark."""
    folder = ROOT / "docs" / "pictures"
    return PICTURE.sub(lambda found: (folder / found[1]).read_text("utf-8"), html)
