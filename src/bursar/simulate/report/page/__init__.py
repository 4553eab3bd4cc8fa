"""One HTML file that shows a run, or several beside each other, and opens without a network."""

from bursar.simulate.report.page.document import page_html, write_page

__all__ = ["page_html", "write_page"]
