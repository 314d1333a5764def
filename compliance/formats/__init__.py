"""How a report is written: one module for each format, with a function `write(report, context) -> str`."""
