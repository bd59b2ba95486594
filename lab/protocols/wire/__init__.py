"""Wire tables: a header as data, and everything that can be done with it. Standard library only: nodes load it too."""
