"""The report: one page of what a folder's cases have found."""

from sim.paper.report.write import write_report

__all__ = ["write_report"]
