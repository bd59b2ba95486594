"""Make lab/protocols/README.md anew from the tables."""

from lab.report.wire.pages import write_document

write_document()
