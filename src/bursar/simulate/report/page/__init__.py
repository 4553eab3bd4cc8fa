"""One HTML file with the plots of a run or a comparison; needs no network."""

from bursar.simulate.report.page.document import page_html

__all__ = ["page_html"]
